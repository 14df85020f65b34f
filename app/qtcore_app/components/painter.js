// The image and the mask live here: painting never waits for the server. One packet per stroke goes out:
// u32 number of the stroke, evidence weights (255 seen, 0 hidden), and the drawing itself where drawing is allowed.

function line(x0, y0, x1, y1, visit) {
  const dx = Math.abs(x1 - x0), dy = -Math.abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1
  let error = dx + dy
  for (;;) {
    visit(x0, y0)
    if (x0 === x1 && y0 === y1) return
    const twice = 2 * error
    if (twice >= dy) { error += dy; x0 += sx }
    if (twice <= dx) { error += dx; y0 += sy }
  }
}

const DEPTH = 100 // strokes that can be undone
const HELP = "arrow keys move the cursor, space paints with the chosen tool (at two corners for a rectangle), shift and arrows paint a line"

export function render({model, el}) {
  const H = model.height_px, W = model.width_px, N = H * W
  let image = new Uint8Array(N), mask = new Uint8Array(N).fill(255)
  const {past, future} = historyOf(model.canvas)
  let before = null, finger = null, scale = 1, hover = null, start = null, last = null, stroke = null
  let cursor = [W >> 1, H >> 1], typing = false // of the keyboard
  const lined = model.drawable && !model.grey // a line drawing, which is read as it is
  let tool = lined ? "pencil" : "brush", size = lined ? 1 : 3, opacity = 100

  const root = node("div", {class: "qt painter"})
  const title = node("h3", {text: model.title})
  const stage = node("div", {class: "stage", tabindex: 0, role: "application", "aria-label": `Picture to paint on: ${HELP}`})
  const base = node("canvas", {width: W, height: H}), over = node("canvas", {class: "over"})
  const told = node("div", {class: "told", role: "status"})
  stage.append(base, over)
  const tools = node("div", {class: "tools"}), actions = node("div", {class: "tools"}), knobs = node("div", {class: "knobs"})
  const choices = {}
  const choose = (name) => { tool = name; for (const key in choices) choices[key].setAttribute("aria-pressed", String(key === name)) }
  const add = (name, label) => { choices[name] = button(name, label, () => choose(name)); tools.append(choices[name]) }
  if (model.drawable) add("pencil", lined ? "Draw contour pixels (d); the right button erases them" : "Draw (d): what is drawn is seen; the right button draws the dark ground")
  add("brush", "Hide with the brush (b)")
  add("rectangle", "Hide a rectangle (r)")
  add("eraser", lined ? "Eraser (e): rub out the drawing and what is hidden" : "Eraser (e): show again")
  const undoButton = button("undo", "Undo (Ctrl-Z)", () => undo()), redoButton = button("redo", "Redo (Ctrl-Y)", () => redo())
  actions.append(undoButton, redoButton,
    button("invert", "Invert: hide what is seen (i)", () => whole(() => { for (let i = 0; i < N; i++) mask[i] = 255 - mask[i] })),
    button("clear", lined ? "Clear: empty canvas, nothing hidden" : "Clear: hide nothing", () => whole(() => { mask.fill(255); if (lined) image.fill(0) })))
  const slider = (label, low, high, value, show, change) => {
    const output = node("output", {text: show(value)})
    const input = node("input", {type: "range", min: low, max: high, value, "aria-label": label})
    input.addEventListener("input", () => { change(Number(input.value)); output.textContent = show(Number(input.value)) })
    knobs.append(node("label", {}, label, input, output))
    return (next) => { input.value = String(next); input.dispatchEvent(new Event("input")) }
  }
  const setSize = slider("size", 1, 9, size, (v) => `${v} px`, (v) => { size = v; overlay() })
  slider("opacity", 10, 100, opacity, (v) => `${v} %`, (v) => { opacity = v })
  root.append(title, stage, told, tools, actions, knobs)

  function layout() {
    scale = fit(H, W, {fixed: model.scale, columns: model.columns})
    for (const [element, w, h] of [[stage, W, H], [base, W, H], [over, W, H]]) {
      element.style.width = `${w * scale}px`; element.style.height = `${h * scale}px`
    }
    root.style.width = `${W * scale}px`
    over.width = W * scale; over.height = H * scale
    draw()
  }

  let planned = null
  function plan(action) { // one drawing per animation frame, however many events come
    if (planned === null) requestAnimationFrame(() => { const wanted = planned; planned = null; wanted() })
    if (planned !== draw) planned = action
  }

  function draw() {
    const context = base.getContext("2d"), pixels = context.createImageData(W, H)
    for (let i = 0; i < N; i++) {
      const shown = lined ? 255 - image[i] : image[i]
      pixels.data.set([shown, shown, shown, 255], 4 * i)
    }
    context.putImageData(pixels, 0, 0)
    overlay()
    undoButton.disabled = past.length === 0; redoButton.disabled = future.length === 0
    stage.dataset.hidden = String(mask.reduce((count, weight) => count + (weight < 255), 0))
  }

  function overlay() { // hidden pixels: covered as far as they are hidden, and hatched
    const context = over.getContext("2d")
    context.clearRect(0, 0, over.width, over.height)
    for (let y = 0; y < H; y++) for (let x = 0; x < W; x++) {
      const hidden = 1 - mask[y * W + x] / 255
      if (!hidden) continue
      context.globalAlpha = hidden
      context.fillStyle = "#8fa3b0"
      context.fillRect(x * scale, y * scale, scale, scale)
    }
    context.globalAlpha = 1
    context.strokeStyle = "#33424d"; context.lineWidth = Math.max(1, scale / 9)
    context.beginPath()
    for (let y = 0; y < H; y++) for (let x = 0; x < W; x++) {
      if (mask[y * W + x] === 255) continue
      context.moveTo(x * scale, (y + 1) * scale); context.lineTo((x + 1) * scale, y * scale)
    }
    context.stroke()
    context.lineWidth = 1.5
    if (start && hover) {
      const [x, y, w, h] = box(start, hover)
      context.strokeStyle = "#d55e00"; context.strokeRect(x * scale, y * scale, w * scale, h * scale)
    } else if (hover) {
      const [x, y] = corner(hover), side = reach()
      if (typing) { context.lineWidth = 5; context.strokeStyle = "#fff"; context.strokeRect(x * scale, y * scale, side * scale, side * scale); context.lineWidth = 2.5 }
      context.strokeStyle = "#d55e00"; context.strokeRect(x * scale, y * scale, side * scale, side * scale)
    }
  }

  const reach = () => tool === "rectangle" || (model.grey && tool === "pencil") ? 1 : size
  const corner = ([x, y]) => [x - Math.floor((reach() - 1) / 2), y - Math.floor((reach() - 1) / 2)]
  const box = ([ax, ay], [bx, by]) => [Math.min(ax, bx), Math.min(ay, by), Math.abs(ax - bx) + 1, Math.abs(ay - by) + 1]

  function set(x, y) {
    if (x < 0 || y < 0 || x >= W || y >= H) return
    const i = y * W + x
    if (stroke === "pencil" || stroke === "rub") {
      image[i] = stroke === "pencil" ? 255 : 0
      if (model.grey) mask[i] = 255
    } else if (stroke === "eraser") { mask[i] = 255; if (lined) image[i] = 0 }
    else mask[i] = Math.round(255 * (1 - opacity / 100))
  }
  function stamp(x, y) {
    const [left, top] = corner([x, y]), side = reach()
    for (let b = 0; b < side; b++) for (let a = 0; a < side; a++) set(left + a, top + b)
  }
  function place(event) {
    const frame = stage.getBoundingClientRect()
    return [Math.floor((event.clientX - frame.left) * W / frame.width), Math.floor((event.clientY - frame.top) * H / frame.height)]
  }

  const snapshot = () => ({image: image.slice(), mask: mask.slice()})
  const same = (a, b) => a.every((value, i) => value === b[i])
  const changed = (old) => !same(old.mask, mask) || (model.drawable && !same(old.image, image)) // which picture it is, is decided by Python
  function keep(old) {
    past.push(old); if (past.length > DEPTH) past.shift()
    future.length = 0
  }
  function send() {
    const packet = new Uint8Array(4 + (model.drawable ? 2 : 1) * N), seq = nextNumber()
    new DataView(packet.buffer).setUint32(0, seq, true)
    packet.set(mask, 4)
    if (model.drawable) packet.set(image, 4 + N)
    window.dispatchEvent(new CustomEvent("qtcore:packet", {detail: {seq, at: performance.now()}}))
    model.packet = packet.buffer
  }
  function finish(old) { // after a stroke: remember it and tell the server, if it changed anything
    if (!changed(old)) return
    keep(old); draw(); send()
  }
  function whole(change) { const old = snapshot(); change(); finish(old) }
  function go(from, to) {
    if (!from.length || before) return // not in the middle of a stroke
    to.push(snapshot())
    const state = from.pop()
    mask = state.mask
    if (model.drawable) image = state.image
    draw(); send()
  }
  const undo = () => go(past, future), redo = () => go(future, past)

  function begin(at, rubbing = false) {
    before = snapshot()
    stroke = rubbing ? (tool === "pencil" ? "rub" : "eraser") : tool
    last = hover = at
    if (tool === "rectangle") start = at
    else stamp(...at)
    plan(draw)
  }
  function goOn(at) {
    hover = at
    if (before && !start) { line(...last, at[0], at[1], stamp); last = at }
  }
  function end(whole = true) { // a rectangle that is not whole is not painted
    if (start && whole) {
      const [x, y, w, h] = box(start, hover)
      for (let b = 0; b < h; b++) for (let a = 0; a < w; a++) set(x + a, y + b)
    }
    const old = before
    before = start = last = stroke = finger = null
    draw(); finish(old)
  }

  stage.addEventListener("pointerdown", (event) => {
    if ((event.button !== 0 && event.button !== 2) || finger !== null) return // one finger paints
    event.preventDefault(); stage.focus({preventScroll: true}); stage.setPointerCapture(event.pointerId)
    if (before) end(false) // of the keyboard
    finger = event.pointerId; typing = false
    begin(place(event), event.button === 2 || event.ctrlKey)
  })
  stage.addEventListener("pointermove", (event) => {
    if (before && event.pointerId !== finger) return
    const events = before && event.getCoalescedEvents ? event.getCoalescedEvents() : []
    for (const each of events.length ? events : [event]) goOn(place(each))
    plan(before ? draw : overlay)
  })
  const lifted = (event) => { if (before && event.pointerId === finger) end(event.type === "pointerup") }
  stage.addEventListener("pointerup", lifted)
  stage.addEventListener("pointercancel", lifted)
  stage.addEventListener("pointerleave", () => { if (!before) { hover = typing ? cursor : null; plan(overlay) } })

  // Who comes by the keyboard paints with a cursor; after a click the arrows belong to the layers, until Enter.
  function type() { typing = true; hover = cursor; tell(); plan(overlay) }
  function tell() {
    const [x, y] = cursor, weight = mask[y * W + x]
    const state = [weight === 255 ? "seen" : weight === 0 ? "hidden" : "half hidden", ...(model.drawable ? [image[y * W + x] > 127 ? "drawn" : "empty"] : [])]
    told.textContent = `row ${y}, column ${x}: ${state.join(", ")}`
  }
  stage.addEventListener("focus", () => { if (stage.matches(":focus-visible")) type() })
  stage.addEventListener("blur", () => {
    if (before && finger === null) end(false)
    typing = false; hover = null; plan(overlay)
  })
  stage.addEventListener("keydown", (event) => {
    const step = STEPS[event.key], paints = event.key === " " || event.key === "Enter"
    if (event.ctrlKey || event.metaKey || event.altKey || finger !== null) return
    if (!typing) { if (event.key !== "Enter") return }
    else if (step) {
      if (event.shiftKey && !before && tool !== "rectangle") begin(cursor)
      cursor = [Math.max(0, Math.min(W - 1, cursor[0] + step[0])), Math.max(0, Math.min(H - 1, cursor[1] + step[1]))]
      goOn(cursor); plan(draw)
    } else if (paints && start) end()
    else if (paints) { begin(cursor); if (!start) end() }
    else if (event.key === "Escape" && before) end(false)
    else return
    event.preventDefault(); type()
  })
  stage.addEventListener("keyup", (event) => { if (event.key === "Shift" && before && finger === null && !start) end() })
  focusWhenSkipped(model, stage)
  stage.addEventListener("contextmenu", (event) => event.preventDefault())
  listenForKeys(model, root, model.whole_page, (event, target) => {
    if (target instanceof Element && target.matches("select, textarea, input:not([type=range])")) return
    const key = event.key.toLowerCase(), control = event.ctrlKey || event.metaKey
    if (control && key === "z") { event.shiftKey ? redo() : undo() }
    else if (control && key === "y") redo()
    else if (control || event.altKey) return
    else if (key === "[") setSize(Math.max(1, size - 1))
    else if (key === "]") setSize(Math.min(9, size + 1))
    else if (key === "e") choose(tool === "eraser" ? (lined ? "pencil" : "brush") : "eraser")
    else if (key === "b") choose("brush")
    else if (key === "r") choose("rectangle")
    else if (key === "d" && model.drawable) choose("pencil")
    else if (key === "i") whole(() => { for (let i = 0; i < N; i++) mask[i] = 255 - mask[i] })
    else return
    event.preventDefault()
  })

  function take(first) { // what Python gives: u32 serial number, image, mask
    const given = bytesOf(model.given)
    if (given.length !== 4 + 2 * N) return
    const old = snapshot()
    image = given.slice(4, 4 + N); mask = given.slice(4 + N)
    const packet = bytesOf(model.packet) // what was painted since; empty when Python gave something later
    if (first && packet.length === 4 + (model.drawable ? 2 : 1) * N) {
      mask = packet.slice(4, 4 + N)
      if (model.drawable) image = packet.slice(4 + N)
    }
    if (!first && changed(old)) keep(old)
    draw()
  }
  take(true); choose(tool); layout()
  model.on("given", () => take(false))
  model.on("pencils", () => choose("pencil"))
  model.on("title", () => { title.textContent = model.title })
  const dark = () => root.classList.toggle("dark", isDark(el))
  const resized = () => { layout(); dark() }
  window.addEventListener("resize", resized)
  watchTheme(model, dark); dark()
  model.on("remove", () => window.removeEventListener("resize", resized))
  return root
}
