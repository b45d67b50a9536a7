"use strict";
// What a page does by itself: themes, copying, tables that sort and filter, charts that are drawn when they are seen.
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
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function setTheme(name) {
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    document.getElementById("theme").textContent = `Theme: ${name}`;
    kept.set("theme", name);
    redraw();
  }
  const themeButton = document.getElementById("theme");
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "auto";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });
  dark.addEventListener("change", () => redraw());

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

  function cellOf(kind, link, text) {
    const cell = make("td", { className: kind });
    if (kind === "badge" && text) {
      cell.append(make("span", { className: `pill ${TONES[text] ?? ""}`, textContent: text }));
    } else if (link && text) {
      cell.append(make("a", { href: link + text, textContent: text }));
    } else if (kind === "code") {
      cell.append(make("code", { textContent: text }));
    } else {
      cell.textContent = text;
    }
    return cell;
  }

  function Table(box) {
    const heads = all("th", box), body = box.querySelector("tbody"), name = box.dataset.name;
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
      if (anew) body.replaceChildren(...part.map((row) => make("tr", {}, ...row.map((text, i) => cellOf(kinds[i], links[i], text)))));
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
  }
  all("[data-table]").forEach((box) => Table(box));

  // --- charts -------------------------------------------------------------------------------------------------
  const drawn = new Map();
  const library = document.getElementById("plotly");
  /** Plotly's script is text until a chart is seen: a browser takes a second to read it. */
  function plotly() {
    if (library && !window.Plotly) document.head.append(make("script", { textContent: library.textContent }));
    return window.Plotly;
  }
  /** `@name` in a figure is a colour of the page's theme. */
  function resolved(value, style) {
    if (typeof value === "string") return value[0] === "@" ? style.getPropertyValue(`--${value.slice(1)}`).trim() : value;
    if (Array.isArray(value)) return value.map((one) => resolved(one, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, style)]));
    }
    return value;
  }
  const narrow = matchMedia("(max-width: 40rem)");
  /** Both ends, by which a name differs from others; what has marks of HTML is left whole. */
  const shortened = (text) => text.length <= 20 || text.includes("&") ? text : `${text.slice(0, 9)}…${text.slice(-10)}`;
  const AXIS = { gridcolor: "@line", linecolor: "@line", zerolinecolor: "@line", automargin: true, title: { standoff: 8 } };
  function draw(box) {
    const plot = box.querySelector(".plot");
    const figure = drawn.get(box)?.figure ?? embedded(box);
    const layout = structuredClone(figure.layout ?? {});
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      layout[name] = { ...AXIS, ...layout[name], title: { ...AXIS.title, ...layout[name].title } };
      // Long names beside a chart would take all the room of a narrow one; pointing at a mark tells them whole.
      if (narrow.matches && name[0] === "y" && layout[name].type === "category") {
        const names = [...new Set(figure.data.flatMap((curve) => curve.y ?? []))];
        Object.assign(layout[name], { tickvals: names, ticktext: names.map(shortened) });
      }
    }
    const whole = {
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: "@ink" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 12, t: 8, b: 8 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: "@ink" } },
      hoverlabel: { bgcolor: "@raised", bordercolor: "@line", font: { color: "@ink" } },
      dragmode: false, autosize: true,
      ...(document.documentElement.classList.contains("printing") ? { width: plot.clientWidth } : {}),
      ...layout,
    };
    const style = getComputedStyle(document.documentElement);
    const config = { displayModeBar: false, responsive: true, showTips: false };
    drawn.set(box, { figure });
    return plotly().react(plot, resolved(structuredClone(figure.data), style), resolved(whole, style), config);
  }
  function redraw() { for (const box of drawn.keys()) draw(box); }
  narrow.addEventListener("change", redraw);
  /** Arrow keys go from point to point, so that every figure can be read without a mouse. */
  function walk(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const plot = event.currentTarget;
    const curves = (plot._fullData ?? []).filter((curve) => curve.visible === true && curve.hoverinfo !== "skip");
    if (!step || !curves.length) return;
    event.preventDefault();
    const points = curves.flatMap((curve) => (curve.x ?? curve.q1 ?? []).map((_, i) => [curve.index, i]));
    const now = Number(plot.dataset.at ?? (step > 0 ? -1 : 0));
    const at = (now + step + points.length) % points.length;
    plot.dataset.at = at;
    try {
      Plotly.Fx.hover(plot, [{ curveNumber: points[at][0], pointNumber: points[at][1] }]);
      say(all(".hoverlayer text", plot).map((text) => text.textContent).join(" "));
    } catch { /* a point that cannot be shown is passed over */ }
  }
  const charts = all("[data-chart]");
  if (charts.length && library) {
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        seen.unobserve(entry.target);
        setTimeout(draw, 0, entry.target); // one at a time, and after the page has shown its text
      }
    }, { rootMargin: "300px" });
    for (const chart of charts) {
      seen.observe(chart);
      chart.querySelector(".plot").addEventListener("keydown", walk);
    }
  }

  // --- printing, links into folded parts ----------------------------------------------------------------------
  // Paper is light and narrow, and nothing on it unfolds.
  let worn = null;
  addEventListener("beforeprint", () => {
    worn ??= document.documentElement.dataset.theme ?? "auto";
    document.documentElement.dataset.theme = "light";
    document.documentElement.classList.add("printing");
    for (const folded of all("details")) folded.open = true;
    if (library) for (const chart of charts) draw(chart);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    setTheme(worn ?? "auto");
    worn = null;
  });
  function unfold() {
    const there = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let up = there; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
    there?.scrollIntoView();
  }
  addEventListener("hashchange", unfold);
  if (location.hash.length > 1) unfold();
  if (kept.get("theme")) setTheme(kept.get("theme"));

  document.documentElement.dataset.ready = "true";
})();
