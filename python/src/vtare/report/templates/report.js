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
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  // A figure on its own: colours and font are the fallbacks of the page's variables, so that it is light on white.
  const picture = (figure) => {
    const still = figure.querySelector(":scope > svg, .scroll > svg, .still > svg");
    const [, , width, height] = still.getAttribute("viewBox").split(" ").map(Number);
    const copy = still.cloneNode(true);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  };
  const raster = async ({ text, width, height }) => {
    const image = new Image();
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: 3 * width, height: 3 * height });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };
  // The data of a chart is on the page already.
  const charted = (figure) => {
    const rows = JSON.parse(figure.querySelector("script[type='application/json']").textContent).datasets.rows;
    const names = Object.keys(rows[0]);
    return [names, ...rows.map((row) => names.map((name) => row[name]))]
      .map((row) => row.map((value) => quote(String(value ?? ""))).join(",")).join("\n") + "\n";
  };
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", async () => {
      const figure = button.closest("figure");
      const form = button.dataset.save;
      const blob = form === "csv" ? new Blob([button.dataset.csv ?? charted(figure)], { type: "text/csv" })
        : form === "png" ? await raster(picture(figure))
        : new Blob([picture(figure).text], { type: "image/svg+xml" });
      save(blob, figure.id.replace(/^figure-/, "") + "." + form);
    });
  }
  // A link to a figure inside a folded part opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  for (const part of document.querySelectorAll("[data-table]")) {
    const table = part.querySelector("table");
    const body = table.tBodies[0];
    const heads = cells(table.tHead.rows[0]);
    // Where a row has no room beside its headings, each cell has its own: narrow screens, paper.
    for (const row of body.rows) cells(row).forEach((cell, at) => (cell.dataset.l = heads[at].textContent.trim()));
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
      save(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }), part.dataset.table + ".csv");
    });
    filter();
  }
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
