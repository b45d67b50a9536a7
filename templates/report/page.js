"use strict";
// What a page does by itself: themes, copying, tables that sort and filter, links to a row of one.
// Text of strangers comes here as data. It is put into the page as text, never as markup.
(() => {
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const make = (tag, values = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), values);
    node.append(...children);
    return node;
  };
  const say = (text) => { document.getElementById("said").textContent = text; };
  const embedded = (where) => {
    const script = where.querySelector('script[type="application/json"]');
    return script ? JSON.parse(script.textContent) : null;
  };
  const kept = { // a page of a file may have no storage
    get: (name) => { try { return sessionStorage.getItem(name); } catch { return null; } },
    set: (name, value) => { try { sessionStorage.setItem(name, value); } catch { /* then it is forgotten */ } },
  };

  // --- themes -------------------------------------------------------------------------------------------------
  const themes = ["auto", "light", "dark"];
  function setTheme(name) {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = `Theme: ${name}`;
    kept.set("theme", name);
  }
  const themeButton = document.getElementById("theme");
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });

  // --- copying ------------------------------------------------------------------------------------------------
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea", { value: text, className: "unseen" });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }
  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copy(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
      say("Copied to the clipboard.");
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  // --- tables -------------------------------------------------------------------------------------------------
  const ROWS_OF_A_PAGE = 50;
  const FILTERED_FROM = 16;
  const TONES = /*tones*/{};
  const number = (text) => { const value = parseFloat(text); return Number.isNaN(value) ? Infinity : value; };

  function cellOf(kind, link, text, title) {
    const cell = make("td", { className: kind });
    cell.dataset.title = title;
    if (kind === "badge" && text) {
      cell.append(make("span", { className: `pill ${TONES[text] ?? ""}`, textContent: text }));
    } else if (link && text) {
      cell.append(make("a", { href: link + text, textContent: text }));
    } else if (kind === "code" && text) {
      cell.append(make("code", { textContent: text }));
    } else {
      cell.textContent = text;
    }
    return cell;
  }

  function Table(box) {
    const heads = all("th", box), body = box.querySelector("tbody"), { name, key } = box.dataset;
    const titles = heads.map((head) => head.textContent);
    const kinds = heads.map((head) => head.dataset.kind), links = heads.map((head) => head.dataset.link);
    const rows = all("tr", body).map((row) => all("td", row).map((cell) => cell.textContent)).concat(embedded(box) ?? []);
    const state = { by: -1, down: false, words: "", page: 0 };
    let shown = rows;

    const count = make("span");
    const input = make("input", { type: "search", placeholder: "e.g. timed plain" });
    const label = make("label", {}, "Filter ", input);
    const before = make("button", { type: "button", textContent: "Previous" });
    const after = make("button", { type: "button", textContent: "Next" });
    const controls = make("div", { className: "controls" });
    if (rows.length >= FILTERED_FROM) controls.append(label, count);
    if (rows.length > ROWS_OF_A_PAGE) controls.append(before, after);
    if (controls.childElementCount) box.prepend(controls);
    input.setAttribute("aria-label", `Filter: ${name}`);
    before.setAttribute("aria-label", `Previous rows: ${name}`);
    after.setAttribute("aria-label", `Next rows: ${name}`);

    function order() {
      const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      shown = words.length
        ? rows.filter((row) => { const text = row.join("\t").toLowerCase(); return words.every((w) => text.includes(w)); })
        : rows.slice();
      if (state.by < 0) return;
      const column = state.by, sign = state.down ? -1 : 1;
      if (kinds[column] === "number") {
        const keyed = shown.map((row) => [number(row[column]), row]);
        // What has no number comes last either way.
        keyed.sort((a, b) => (a[0] === b[0] ? 0 : a[0] === Infinity ? 1 : b[0] === Infinity ? -1 : sign * (a[0] - b[0])));
        shown = keyed.map((pair) => pair[1]);
      } else {
        const collator = new Intl.Collator("en", { numeric: true });
        shown.sort((a, b) => sign * collator.compare(a[column], b[column]));
      }
    }
    /** The rows that the page came with stay as they are until another order is asked for. */
    function draw(anew = true) {
      const pages = Math.max(1, Math.ceil(shown.length / ROWS_OF_A_PAGE));
      state.page = Math.min(state.page, pages - 1);
      const first = state.page * ROWS_OF_A_PAGE, part = shown.slice(first, first + ROWS_OF_A_PAGE);
      const line = (row) => make("tr", key ? { id: key + row[0] } : {}, ...row.map((text, i) => cellOf(kinds[i], links[i], text, titles[i])));
      if (anew) body.replaceChildren(...part.map(line));
      const range = part.length ? `${first + 1} to ${first + part.length} of ${shown.length}` : "none";
      count.textContent = `${range}${shown.length < rows.length ? ` (${rows.length} in all)` : ""}`;
      before.disabled = state.page === 0;
      after.disabled = state.page >= pages - 1;
      heads.forEach((head, i) => {
        head.setAttribute("aria-sort", i !== state.by ? "none" : state.down ? "descending" : "ascending");
      });
    }
    function turn(by) { state.page += by; draw(); say(count.textContent); }

    heads.forEach((head, i) => {
      const button = make("button", { type: "button", textContent: head.textContent });
      button.addEventListener("click", () => {
        state.down = state.by === i ? !state.down : false;
        state.by = i;
        state.page = 0;
        order();
        draw();
        say(`Sorted by ${head.textContent}, ${state.down ? "descending" : "ascending"}.`);
      });
      head.replaceChildren(button);
    });
    input.addEventListener("input", () => { state.words = input.value; state.page = 0; order(); draw(); });
    before.addEventListener("click", () => turn(-1));
    after.addEventListener("click", () => turn(1));
    draw(false);
    return (id) => { // the row of this id comes into sight, on whichever page it is
      const at = key && id.startsWith(key) ? rows.findIndex((row) => key + row[0] === id) : -1;
      if (at < 0 || document.getElementById(id)) return;
      Object.assign(state, { by: -1, words: "", page: Math.floor(at / ROWS_OF_A_PAGE) });
      input.value = "";
      order();
      draw();
    };
  }
  const showRow = all("[data-table]").map(Table);

  // --- printing, links into folded parts ----------------------------------------------------------------------
  // Paper is light and narrow, and nothing on it unfolds.
  let worn = null;
  addEventListener("beforeprint", () => {
    worn ??= document.documentElement.dataset.theme ?? "auto";
    document.documentElement.dataset.theme = "light";
    document.documentElement.classList.add("printing");
    for (const folded of all("details")) folded.open = true;
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    setTheme(worn ?? "auto");
    worn = null;
  });
  function unfold() {
    const id = decodeURIComponent(location.hash.slice(1));
    for (const show of showRow) show(id);
    const there = document.getElementById(id);
    for (const row of all("tr.meant")) row.classList.remove("meant");
    if (there?.tagName === "TR") there.classList.add("meant");
    for (let up = there; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    there?.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  if (location.hash.length > 1) unfold();
  if (kept.get("theme")) setTheme(kept.get("theme"));

  document.documentElement.dataset.ready = "true";
})();
