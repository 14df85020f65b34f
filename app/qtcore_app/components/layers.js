// Layers as bytes (see app/frames.py for the format), and the deck that plays them: slider, play, step and speed.

const SERIES = ["var(--accent)", "#d55e00"]

function parse(value) {
  const bytes = bytesOf(value)
  if (bytes.length < 4) return null
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true)
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)))
  const pixels = header.height * header.width, channels = header.channels.length
  let at = 4 + length
  if (header.truth) { header.truthBytes = bytes.subarray(at, at + pixels); at += pixels } else header.truthBytes = null
  for (const run of header.runs) { run.bytes = bytes.subarray(at, at += run.count * channels * pixels) }
  header.index = Object.fromEntries(header.channels.map((channel, i) => [channel.name, i]))
  return header
}

const pretty = (value) => value === null || value === undefined ? "–" : Math.abs(value) >= 100 ? value.toFixed(0)
  : Math.abs(value) >= 10 ? value.toFixed(1) : Math.abs(value) >= 0.01 || value === 0 ? value.toFixed(2) : value.toExponential(0)

// About eight layers from the first to the last, each twice as far as the one before at most.
function milestones(total) {
  const layers = new Set([0])
  for (let i = 0; i < 8; i++) layers.add(Math.round(Math.pow(total, i / 7)))
  return [...layers].filter((layer) => layer <= total).sort((a, b) => a - b)
}

// Whether the beliefs of a run are at rest (the badge says "converged"), from their period in each layer (see qtcore.inference.engine.Layer).
const REST = {
  converged: "From this layer on, no belief changes by more than 0.001.",
  oscillating: "The beliefs repeat, but not in the next layer.",
  moving: "The beliefs still change in the last layer.",
}
function restOf(run) {
  const periods = run.curves.period ?? [], last = periods.length - 1
  if (last < 0 || run.count <= run.total || periods[last] === 0) return {kind: "moving", text: run.count <= run.total ? "…" : "not converged"}
  if (periods[last] > 1) return {kind: "oscillating", text: `oscillating, period ${periods[last]}`}
  let first = last
  while (first > 0 && periods[first - 1] === 1) first--
  return {kind: "converged", text: `converged at layer ${first}`}
}

// The number that a byte stands for.
function valueAt(data, run, layer, name, i) {
  const c = data.index[name], channel = data.channels[c], pixels = data.height * data.width
  const byte = run.bytes[(Math.min(layer, run.count - 1) * data.channels.length + c) * pixels + i]
  return channel.low + byte / 255 * (channel.high - channel.low)
}

// Pictures that differ in much of their area must not follow each other more than three times a second (WCAG 2.3.1).
const CALM = 1000 / 3, CLEARLY = 26, MUCH = 0.2 // milliseconds; a tenth of the range of a byte; the share of such pixels
function bytesAt(data, run, layer, name) {
  const pixels = data.height * data.width, at = (Math.min(layer, run.count - 1) * data.channels.length + data.index[name]) * pixels
  return run.bytes.subarray(at, at + pixels)
}
function flashes(before, layer, after, next, names) { // from a layer of one blob to a layer of the same or of another
  if (before.height !== after.height || before.width !== after.width) return true
  return before.runs.some((run, r) => names.some((name) => {
    if (!after.runs[r] || !(name in before.index && name in after.index)) return true
    const one = bytesAt(before, run, layer, name), other = bytesAt(after, after.runs[r], next, name)
    let count = 0
    for (let i = 0; i < one.length; i++) count += Math.abs(one[i] - other[i]) > CLEARLY
    return count > MUCH * one.length
  }))
}

// The curve of one quantity over the layers, with its value at the cursor beside the title, or beside the name of each run.
function curve({spec, heading, body}, data, deck, width) {
  const series = data.runs.map((run, r) => {
    const values = run.curves[spec.curve] ?? []
    return {label: run.label, colour: SERIES[r], values, now: pretty(values[Math.min(deck.cursor, values.length - 1)])}
  })
  heading.title = spec.explain ?? spec.title
  heading.replaceChildren(spec.title, node("small", {text: series.length > 1 || series[0].now === "–" ? "" : ` · ${series[0].now}`}))
  if (!series.some((each) => each.values.some((v) => v !== null))) { nothing(body, data.without?.[spec.curve] ?? "Not known for this picture."); return }
  plot(body, series, {...spec, baseline: data.baselines[spec.curve], total: deck.total(), cursor: deck.cursor, width, names: data.runs.length > 1, move: deck.move})
}
function nothing(body, text) { body.replaceChildren(node("div", {class: "none", text})) }
function panel(spec) {
  const heading = node("h3"), body = node("div")
  return {spec, heading, body, block: node("div", {class: "chart"}, heading, body)}
}

// `shown()` is the parsed blob, `draw()` draws it at the cursor, `flash(layer)` says whether the step to the next layer is one that
// the eye should be spared at more than three times a second; `model.layer` is the cursor (-1: the last layer there is).
const SPEEDS = [1, 2, 5, 10, 20, 40] // layers per second
const SECONDS = 5, SLOWEST = 400, FASTEST = 25 // how long all layers take unless somebody chooses a speed; milliseconds of one of them
function paceOf(layer, total, even) { // milliseconds until the next layer: the first ones last longer, unless all are alike
  const share = even ? 1 / Math.max(total, 1) : Math.log((layer + 2) / (layer + 1)) / Math.log(total + 1)
  return Math.max(FASTEST, Math.min(SLOWEST, 1000 * SECONDS * share))
}
function makeDeck(model, shown, draw, flash, ...extras) {
  let follow = model.layer < 0, cursor = Math.max(model.layer, 0), goal = 0
  const last = () => shown() ? Math.max(...shown().runs.map((run) => run.count)) - 1 : 0
  const total = () => shown() ? Math.max(...shown().runs.map((run) => run.total)) : 0
  const slider = node("input", {type: "range", min: 0, max: 1, value: 1, "aria-label": "layer"})
  const where = node("span", {class: "where"})
  const speed = node("select", {"aria-label": "speed", title: `Layers per second; auto: ${model.even ? "all of them in about five seconds" : "the first ones slowly"}`},
    node("option", {value: "auto", text: "auto"}), ...SPEEDS.map((rate) => node("option", {value: rate, text: `${rate}/s`})))
  const clock = makeClock({at: () => cursor, last, put, move, wait: () => Math.max(speed.value === "auto" ? paceOf(cursor, total(), model.even) : 1000 / Number(speed.value), flash(cursor) ? CALM : 0)})
  const controls = node("div", {class: "controls"},
    button("first", "Back to layer 0 (Home)", () => move(0), true), button("back", "One layer back (←)", () => move(cursor - 1), true),
    clock.face, button("forward", "One layer on (→)", () => move(cursor + 1), true), button("last", "To the last layer (End)", () => move(Infinity), true),
    slider, where, speed, ...extras)

  function aim(layer) { // where the user wants to be: while layers still arrive, the cursor waits at the last one
    goal = layer; follow = goal >= total(); cursor = Math.min(goal, last())
  }
  function move(layer) {
    clock.stop()
    aim(Math.max(0, Math.min(layer, total())))
    model.layer = follow ? -1 : goal
    draw()
  }
  function put(layer) { follow = false; cursor = layer; draw() }
  function arrived() { // more layers, or another run
    if (follow) cursor = last()
    else cursor = Math.min(clock.running ? cursor : goal, last())
  }
  function show(root) { // the state of the deck, for the eye and for tests
    slider.max = String(total()); slider.value = String(clock.running || follow ? cursor : goal); slider.setAttribute("aria-valuetext", `layer ${cursor} of ${total()}`)
    where.textContent = `layer ${cursor} / ${total()}`
    root.dataset.layer = String(cursor); root.dataset.seq = String(shown().seq); root.dataset.done = String(last() >= total())
  }
  slider.addEventListener("input", () => { clock.stop(); aim(Number(slider.value)); draw() })
  slider.addEventListener("change", () => move(goal)) // perhaps a layer that is still to come
  model.on("layer", () => { if (model.layer !== cursor && !(follow && model.layer < 0)) { aim(model.layer < 0 ? Infinity : model.layer); draw() } })
  model.on("remove", clock.stop)
  if (shown()) aim(follow ? Infinity : model.layer)
  const play = () => { move(0); clock.start() }
  return {controls, play, keys: clock.key, total, last, move, arrived, show, get cursor() { return cursor }, get follows() { return follow }}
}
