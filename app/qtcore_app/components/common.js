// Shared by painter, player and gallery; each of them is this text followed by its own.

const GAP = 12 // between pictures
const STEPS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]} // x, y

// In a narrow window, as on a phone, all parts of a page are below one another (the same width as in layout.py and *.css).
const NARROW = 1020, MARGIN = 16
const isNarrow = () => window.innerWidth <= NARROW
const roomInNarrow = () => window.innerWidth - 2 * MARGIN

// How many screen pixels an image pixel gets, so that `columns` pictures fit beside and below all else on a page; in a narrow
// window `abreast` fit next to each other, and none takes much more of its height than a third.
function fit(height, width, options = {}) {
  const {columns = 4, beside = 216 + 16 + 20 + 16 + 16, above = 440, rows = 1, fixed = 0, abreast = 1} = options
  if (fixed > 0) return fixed
  if (isNarrow()) return Math.max(4, Math.floor(Math.min((roomInNarrow() - (abreast - 1) * GAP) / abreast / width, Math.max(240, window.innerHeight * 0.38) / height)))
  const room = (window.innerWidth - beside - (columns - 1) * GAP) / columns
  const scale = Math.floor(Math.min(room / width, Math.max(window.innerHeight - above, 240) / height / rows))
  return Math.max(4, Math.min(scale, Math.max(20, Math.floor(400 / height))))
}

function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value)
    else if (key === "text") made.textContent = value
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value)
  }
  made.append(...children)
  return made
}

function bytesOf(value) {
  if (!value) return new Uint8Array(0)
  if (value instanceof Uint8Array) return value
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  return new Uint8Array(value.buffer ?? value)
}

// The number of the next stroke: it grows as long as the window lives, also when a component is drawn anew after a tab was left.
function nextNumber() {
  window.qtcoreNumber = (window.qtcoreNumber ?? 0) + 1
  return window.qtcoreNumber
}

// The strokes of a canvas that can be undone and redone: they too outlive a tab that is left.
function historyOf(canvas) {
  window.qtcoreHistories ??= {}
  return window.qtcoreHistories[canvas] ??= {past: [], future: []}
}

const ICONS = {
  brush: "M4 20c3 0 5-1 5-3a2.5 2.5 0 0 0-5 0c0 1.5-1 2-2 2 .5.7 1.300 1 2 1zM10 14l9-10 2 2-9 10z",
  eraser: "M4 15l9-9 6 6-7 7H8zM13 6l2-2 6 6-2 2M6 21h14",
  rectangle: "M4 6h16v12H4z",
  pencil: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  undo: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 0 8h-3",
  redo: "M15 7l5 5-5 5M20 12H10a6 6 0 0 0 0 8h3",
  invert: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  clear: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  first: "M6 5v14M19 5l-9 7 9 7z",
  back: "M16 5l-9 7 9 7z",
  play: "M7 4l12 8-12 8z",
  pause: "M7 5h3v14H7zM14 5h3v14h-3z",
  forward: "M8 5l9 7-9 7z",
  last: "M18 5v14M5 5l9 7-9 7z",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
}

function icon(name, filled = false) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
  svg.setAttribute("viewBox", "0 0 24 24")
  svg.setAttribute("aria-hidden", "true")
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path")
  path.setAttribute("d", ICONS[name])
  if (filled) path.setAttribute("class", "filled")
  svg.append(path)
  return svg
}

function button(name, label, action, filled = false) {
  const made = node("button", {type: "button", title: label, "aria-label": label, "data-name": name, onclick: action}, icon(name, filled))
  return made
}

// The play button and its clock, for anything that steps through layers: `at()` and `last()` are the layer shown and the last
// one, `put(layer)` shows a layer on the way, `move(layer)` goes there and stays; `wait()` gives the milliseconds between two,
// `stride()` how many layers later the next one is.
function makeClock({at, last, put, move, wait, stride = () => 1}) {
  let timer = null
  const still = window.matchMedia("(prefers-reduced-motion: reduce)")
  const face = button("play", "Play the layers (space)", toggle, true)
  const look = (name, label) => { face.replaceChildren(icon(name, true)); face.setAttribute("aria-label", label) }
  function toggle() {
    if (timer) move(at())
    else if (still.matches) move(at() >= last() ? 0 : at() + 1) // reduced motion: one step per press
    else start()
  }
  function start() {
    if (still.matches) return // whoever wants reduced motion plays step by step
    look("pause", "Pause (space)"); tick(); put(at() >= last() ? 0 : at())
  }
  function tick() {
    timer = setTimeout(() => {
      const next = at() + stride()
      if (next >= last()) { move(last()); return }
      tick(); put(next)
    }, wait())
  }
  function stop() { clearTimeout(timer); timer = null; look("play", "Play the layers (space)") }
  function key(event, target) { // unless the focus is where the key has another use
    const used = target instanceof Element && (target.matches("select, textarea, input:not([aria-label=layer])") || (target.matches("button") && event.key === " "))
    if (used || event.ctrlKey || event.metaKey || event.altKey) return
    const acts = {" ": toggle, ArrowLeft: () => move(at() - 1), ArrowRight: () => move(at() + 1), Home: () => move(0), End: () => move(Infinity)}
    if (!Object.hasOwn(acts, event.key)) return
    acts[event.key]()
    event.preventDefault()
  }
  return {face, start, stop, key, get running() { return timer !== null }}
}

// Keys go to `act(event, target)`: those pressed inside `root`, or wherever the focus is when `wide`, as on a page of our own
// (but not in a notebook, where others need them). A tab needs its arrows itself.
function listenForKeys(model, root, wide, act) {
  const listener = (event) => {
    const target = event.composedPath()[0]
    if (event.defaultPrevented || !root.getClientRects().length || (target instanceof Element && target.closest("[role=tab]"))) return
    act(event, target)
  }
  const where = wide ? document : root
  where.addEventListener("keydown", listener)
  model.on("remove", () => where.removeEventListener("keydown", listener))
}

// What a page is about: the link past the choices (see skip.js) leads here.
function focusWhenSkipped(model, target) {
  const skipped = () => { if (target.getClientRects().length) target.focus() }
  window.addEventListener("qtcore:skip", skipped)
  model.on("remove", () => window.removeEventListener("qtcore:skip", skipped))
}

// Whether the text around us is light, that is, whether the page is dark.
function isDark(el) {
  const colour = getComputedStyle(el.isConnected ? el : document.body).color.match(/[\d.]+/g)
  return colour ? (Number(colour[0]) + Number(colour[1]) + Number(colour[2])) / 3 > 128 : false
}

function watchTheme(model, changed) {
  const observer = new MutationObserver(() => setTimeout(changed, 60))
  observer.observe(document.documentElement, {attributes: true})
  observer.observe(document.body, {attributes: true})
  setTimeout(changed, 150)
  setTimeout(changed, 800)
  model.on("remove", () => observer.disconnect())
}
