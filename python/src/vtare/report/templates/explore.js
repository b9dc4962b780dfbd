"use strict";
// Charts in place of the still figures: drawn when they come into view, left out where they cannot be.
(() => {
  const LEAST = 1e-3;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  for (const group of document.querySelectorAll(".drawable")) {
    const charts = [];
    const picked = new Set();
    const show = (chart) => {
      const { low, high, log } = chart;
      const between = (share) => (log ? low * (high / low) ** share : low + (high - low) * share);
      // The ends are what they were: a power of a ratio may miss the last digit, and with it the last tick.
      const at = (share) => (share <= 0 ? low : share >= 1 ? high : between(share));
      chart.view.signal("x_low", at(chart.from)).signal("x_high", at(chart.to)).runAsync();
    };
    // Positions are shares of the whole axis, so that charts over one axis can move together.
    const look = (chart, from, to) => {
      const size = clamp(to - from, LEAST, 1);
      const begin = clamp(from, 0, 1 - size);
      for (const one of chart.shared ? charts.filter((other) => other.shared) : [chart]) {
        [one.from, one.to] = [begin, begin + size];
        show(one);
      }
    };
    const zoom = (chart, factor, where = 0.5) => {
      const size = chart.to - chart.from;
      const centre = chart.from + where * size;
      look(chart, centre - where * size * factor, centre + (1 - where) * size * factor);
    };
    const move = (chart, share) => look(chart, chart.from + share * (chart.to - chart.from), chart.to + share * (chart.to - chart.from));
    const acts = {
      "+": (chart) => zoom(chart, 0.5), "=": (chart) => zoom(chart, 0.5), "-": (chart) => zoom(chart, 2),
      ArrowLeft: (chart) => move(chart, -0.2), ArrowRight: (chart) => move(chart, 0.2),
      0: (chart) => look(chart, 0, 1),
    };
    const listen = (chart, box) => {
      const place = (event) => (event.clientX - box.getBoundingClientRect().left - chart.view.origin()[0]) / chart.view.width();
      box.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in acts)) return;
        event.preventDefault();
        acts[event.key](chart);
      });
      box.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        zoom(chart, 2 ** clamp(event.deltaY / 100, -1, 1), clamp(place(event), 0, 1));
      }, { passive: false });
      box.addEventListener("dblclick", () => look(chart, 0, 1));
      let held = null;
      box.addEventListener("pointerdown", (event) => {
        held = { at: place(event), from: chart.from, to: chart.to };
        box.setPointerCapture(event.pointerId);
      });
      box.addEventListener("pointermove", (event) => {
        if (!held || chart.to - chart.from >= 1) return;
        const gone = (held.at - place(event)) * (held.to - held.from);
        look(chart, held.from + gone, held.to + gone);
      });
      for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, () => { held = null; });
    };
    const draw = async (figure) => {
      const box = figure.querySelector(".chart");
      figure.classList.add("live-chart");
      try {
        const spec = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
        const made = await vegaEmbed(box, spec, {
          mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
          tooltip: { disableDefaultStyle: true },
        });
        const { low, high, log, shared } = box.dataset;
        const chart = { view: made.view, low: Number(low), high: Number(high), log: log !== undefined, shared: shared !== undefined, from: 0, to: 1 };
        const seen = chart.shared && charts.find((other) => other.shared);
        if (seen) [chart.from, chart.to] = [seen.from, seen.to];
        charts.push(chart);
        listen(chart, box);
        if (seen) show(chart);
        if (picked.size) chart.view.signal("picked", Array.from(picked)).runAsync();
        box.dataset.drawn = "";
      } catch (error) {
        // The still figure shows the same.
        figure.classList.remove("live-chart");
        throw error;
      }
    };
    for (const button of group.querySelectorAll("button[data-curve]")) {
      button.addEventListener("click", () => {
        const name = button.dataset.curve;
        if (!picked.delete(name)) picked.add(name);
        button.setAttribute("aria-pressed", String(picked.has(name)));
        for (const chart of charts) chart.view.signal("picked", Array.from(picked)).runAsync();
      });
    }
    for (const button of group.querySelectorAll("button[data-zoom]")) {
      button.addEventListener("click", () => {
        const how = button.dataset.zoom;
        const first = charts.find((chart) => chart.shared);
        for (const chart of first ? [first, ...charts.filter((one) => !one.shared)] : charts) {
          if (how === "all") look(chart, 0, 1);
          else zoom(chart, how === "in" ? 0.5 : 2);
        }
      });
    }
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        watch.unobserve(entry.target);
        draw(entry.target);
      }
    }, { rootMargin: "200px" });
    for (const box of group.querySelectorAll(".chart")) watch.observe(box.parentElement);
  }
})();
