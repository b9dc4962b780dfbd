# Makes r_values.json: what R says of small data sets, for the tests beside it. Needs r-base-core and r-cran-nlme.
#   Rscript make_values.R > r_values.json
# Everything is base R but the data set `Wheat` of nlme (Milliken and Johnson 1992), which Higgins, Blair and Tashtoush 1990
# print as their Table 5 and ARTool ships as Higgins1990Table5.

number <- function(x) ifelse(is.na(x), "null", format(x, digits = 15))
row <- function(name, x) cat(sprintf('  "%s": [%s]', name, paste(number(x), collapse = ", ")))
first <- TRUE
say <- function(name, x) { if (!first) cat(",\n"); first <<- FALSE; row(name, x) }

a <- c(2.1, 3.4, 1.9, 5.6, 4.4, 3.3)
b <- c(6.2, 5.9, 7.7, 4.1, 8.8, 9.3)
g <- c(1.2, 2.8, 6.6, 10.4, 3.9)
blocks <- rbind(c(9.2, 9.5, 10.1), c(8.7, 9.9, 9.3), c(7.9, 8.8, 9.6), c(9.0, 9.1, 9.8), c(8.4, 8.1, 9.9), c(8.9, 9.4, 9.7))

cat("{\n")
say("a", a); say("b", b); say("g", g); say("blocks", t(blocks))
say("quantile_type7", quantile(a, c(0.1, 0.25, 0.5, 0.9), type = 7))
say("mad_raw", mad(a, constant = 1))
k <- kruskal.test(list(a, b, g)); say("kruskal", c(k$statistic, k$p.value))
f <- friedman.test(blocks); say("friedman", c(f$statistic, f$p.value))
w <- t.test(log(a), log(b)); say("welch_log", c(w$statistic, w$parameter, w$p.value, w$conf.int, w$estimate))
m <- log(1.5)
p_low <- t.test(log(a), log(b), mu = -m, alternative = "greater")$p.value
p_high <- t.test(log(a), log(b), mu = m, alternative = "less")$p.value
say("tost_1.5", max(p_low, p_high))
x <- c(1.2, 3.4, 2.2, 5.9, 4.4, 6.1, 0.4, 7.2); y <- c(2.0, 2.9, 1.1, 6.6, 7.9, 4.2, 1.6, 5.0)
say("x", x); say("y", y)
t1 <- cor.test(x, y, method = "kendall", exact = TRUE); say("kendall", c(t1$estimate, t1$p.value))
level <- c(0, 1, 0, 1, 1, 1, 0, 0)
say("level", level); say("kendall_level", cor(x, level, method = "kendall"))
all <- c(a, b, g); where <- factor(rep(1:3, c(length(a), length(b), length(g))))
h <- TukeyHSD(aov(rank(all) ~ where))$where
say("tukey_on_ranks", h[c("2-1", "3-1", "3-2"), "p adj"])
# Nemenyi after Kruskal-Wallis: the studentized range of mean ranks with infinite degrees of freedom.
r <- tapply(rank(all), where, mean); n <- table(where); N <- length(all)
q <- function(i, j) abs(r[i] - r[j]) / sqrt(N * (N + 1) / 12 * (1 / n[i] + 1 / n[j])) * sqrt(2)
say("nemenyi", ptukey(c(q(1, 2), q(1, 3), q(2, 3)), 3, Inf, lower.tail = FALSE))
rb <- colMeans(t(apply(blocks, 1, rank)))
qf <- function(i, j) abs(rb[i] - rb[j]) / sqrt(3 * 4 / (6 * nrow(blocks))) * sqrt(2)
say("nemenyi_friedman", ptukey(c(qf(1, 2), qf(1, 3), qf(2, 3)), 3, Inf, lower.tail = FALSE))
# Dunn: z of mean ranks (no ties here), unadjusted and by Holm.
z <- function(i, j) abs(r[i] - r[j]) / sqrt(N * (N + 1) / 12 * (1 / n[i] + 1 / n[j]))
pd <- 2 * pnorm(c(z(1, 2), z(1, 3), z(2, 3)), lower.tail = FALSE)
say("dunn", pd); say("dunn_holm", p.adjust(pd, "holm")); say("dunn_bh", p.adjust(pd, "BH"))
pw <- power.t.test(n = 6, delta = 2, sd = 1, strict = TRUE); say("power_n6_d2", pw$power)
say("power_needed", sapply(c(3, 2, 1.5, 1), function(d) ceiling(power.t.test(power = 0.8, delta = d, sd = 1, strict = TRUE)$n)))

# The rule over blocks: paired t of logarithms, its power, and the rank tests turned round (Hodges and Lehmann).
pt <- t.test(log(a), log(b), paired = TRUE); say("paired_log", c(pt$statistic, pt$parameter, pt$p.value, pt$conf.int, pt$estimate))
say("power_paired_n6_d1.2", power.t.test(n = 6, delta = 1.2, sd = 1, type = "paired", strict = TRUE)$power)
say("power_paired_needed", sapply(c(3, 2, 1.5, 1, 0.5), function(d)
  ceiling(power.t.test(power = 0.8, delta = d, sd = 1, type = "paired", strict = TRUE)$n)))
ws <- wilcox.test(log(a), log(b), paired = TRUE, exact = TRUE, conf.int = TRUE); say("signed_rank", c(ws$estimate, ws$conf.int))
wr <- wilcox.test(log(a), log(b), exact = TRUE, conf.int = TRUE); say("rank_sum", c(wr$estimate, wr$conf.int))
# Interaction of 2 x 3 levels over 6 blocks: univariate F of the contrasts with the epsilon of Huynh and Feldt.
crossed <- rbind(c(1.0, 2.1, 2.9, 2.2, 3.1, 6.0), c(1.2, 1.8, 3.3, 2.0, 3.5, 5.1), c(0.7, 2.4, 3.0, 1.9, 2.6, 7.2),
                 c(1.1, 2.0, 2.7, 2.4, 3.3, 5.7), c(0.9, 2.2, 3.1, 2.1, 3.0, 6.4), c(1.3, 1.7, 2.8, 1.8, 3.2, 6.6))
say("crossed", t(crossed))
H2 <- cbind(c(1, -1)) / sqrt(2); H3 <- cbind(c(1, -1, 0) / sqrt(2), c(1, 1, -2) / sqrt(6))
u <- crossed %*% kronecker(H2, H3); k <- 2; S <- cov(u)
gg <- sum(diag(S))^2 / (k * sum(S^2)); hf <- (nrow(u) * k * gg - 2) / (k * (nrow(u) - 1 - k * gg))
m <- anova(lm(u ~ 1), lm(u ~ 0), test = "Spherical")
say("crossed_F", c(nrow(u) * sum(colMeans(u)^2) / sum(diag(S)), m[2, "F"], gg, hf))

# Aligned rank transform of Wobbrock et al. 2011, written out in base R, type III by sum contrasts.
art <- function(y, A, B, error = NULL) {
  cell <- ave(y, A, B); ma <- tapply(y, A, mean)[A]; mb <- tapply(y, B, mean)[B]; mu <- mean(y)
  effects <- list(A = ma - mu, B = mb - mu, AB = cell - ma - mb + mu)
  sapply(names(effects), function(e) {
    ranks <- rank(round(y - cell + effects[[e]], 10))
    formula <- if (is.null(error)) ranks ~ A * B else ranks ~ A * B + Error(error)
    strata <- summary(aov(formula))
    if (!is.null(error)) strata <- lapply(strata, function(s) s[[1]])
    wanted <- c(A = "A", B = "B", AB = "A:B")[[e]]
    for (t in strata) if (wanted %in% trimws(rownames(t))) return(t[trimws(rownames(t)) == wanted, "F value"])
  })
}
d <- as.data.frame(nlme::Wheat)
tray <- as.integer(as.character(d$Tray)); moisture <- as.integer(factor(d$Moisture)); fertilizer <- as.integer(factor(d$fertilizer))
# Higgins et al. print one decimal, cut off: with that, the ranks of their Table 5 (and of ARTool) have ties.
dry <- floor(d$DryMatter * 10 + 1e-9) / 10
say("wheat_dry", dry); say("wheat_tray", tray); say("wheat_moisture", moisture); say("wheat_fertilizer", fertilizer)
say("wheat_art_F", art(dry, factor(moisture), factor(fertilizer), factor(tray)))
i <- d$DryMatter; say("wheat_full", i)
say("wheat_full_art_F", art(i, factor(moisture), factor(fertilizer), factor(tray)))
say("wheat_between_art_F", art(i, factor(moisture), factor(fertilizer)))
cat("\n}\n")
