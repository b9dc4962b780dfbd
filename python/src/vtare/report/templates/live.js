"use strict";
(() => {
  const shown = document.documentElement.dataset.page;
  const bar = document.createElement("p");
  bar.className = "live";
  const words = document.createElement("span");
  words.setAttribute("role", "status");
  const follow = document.createElement("input");
  follow.type = "checkbox";
  follow.checked = sessionStorage.getItem("vtare-follow") !== "no";
  follow.addEventListener("change", () => sessionStorage.setItem("vtare-follow", follow.checked ? "yes" : "no"));
  const label = document.createElement("label");
  label.append(follow, " show newer reports by themselves");
  const now = document.createElement("button");
  now.type = "button";
  now.textContent = "Show the newer report";
  now.hidden = true;
  now.addEventListener("click", () => location.reload());
  bar.append(words, now, label);
  document.querySelector(".page").prepend(bar);
  const tell = (state) => {
    const counts = ["done", "failed", "skipped", "pending", "not_needed"].filter((word) => state[word] || word === "done");
    let text = "Live: " + counts.map((word) => state[word] + " " + word.replace("_", " ")).join(", ");
    if (state.total !== null) text += " of " + state.total + " runs";
    if (state.building) text += "; a newer report is being made";
    if (state.error) text += "; " + state.error;
    words.textContent = text + ". ";
  };
  const look = async () => {
    try {
      const answer = await fetch("/state", { cache: "no-store" });
      const state = await answer.json();
      tell(state);
      const newer = String(state.page) !== shown;
      now.hidden = !newer;
      // Someone who types into a filter is not interrupted.
      const busy = document.activeElement && /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
      if (newer && follow.checked && !(busy && document.activeElement !== follow)) {
        location.reload();
        return;
      }
    } catch {
      words.textContent = "The server has ended: this is the last report it made. ";
    }
    setTimeout(look, 3000);
  };
  look();
})();
