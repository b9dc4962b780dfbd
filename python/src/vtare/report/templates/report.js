"use strict";
(() => {
  document.documentElement.classList.add("js");
  const cells = (row) => Array.from(row.cells);
  const order = (cell) => {
    const value = cell.dataset.o;
    if (value === undefined) return null;
    const number = Number(value);
    return value !== "" && !Number.isNaN(number) ? number : value;
  };
  // Missing figures go last in both directions: they are neither small nor large.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const quote = (text) => (/[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text);
  for (const part of document.querySelectorAll("[data-table]")) {
    const table = part.querySelector("table");
    const body = table.tBodies[0];
    const heads = cells(table.tHead.rows[0]);
    const search = part.querySelector("input[type=search]");
    const choice = part.querySelector("select");
    const shown = part.querySelector(".shown");
    heads.forEach((head, at) => {
      head.querySelector("button").addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const rows = Array.from(body.rows);
        rows.sort((x, y) => compare(order(x.cells[at]), order(y.cells[at]), sign));
        body.append(...rows);
      });
    });
    const filter = () => {
      const words = (search?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase().replace(/\u00a0/g, " ");
        const fits = words.every((word) => text.includes(word));
        const chosen = !choice?.value || row.querySelector("td." + choice.value) !== null;
        row.hidden = !(fits && chosen);
        count += row.hidden ? 0 : 1;
      }
      // A table without a filter is short enough to be seen whole.
      if (search) shown.textContent = count + " of " + body.rows.length + " rows";
    };
    search?.addEventListener("input", filter);
    choice?.addEventListener("change", filter);
    part.querySelector("button.csv").addEventListener("click", () => {
      const lines = [heads.map((head) => quote(head.dataset.k)).join(",")];
      for (const row of body.rows) {
        if (!row.hidden) lines.push(cells(row).map((cell) => quote(cell.dataset.v ?? cell.textContent.trim())).join(","));
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
      link.download = part.dataset.table + ".csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    filter();
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
