// The lab. Python computes every number; here they are drawn, and what the user does goes back as small lists.

const SMALL = 0.01 // the largest error of beliefs that are called correct

function download({name, text}) {
  const link = node("a", {href: URL.createObjectURL(new Blob([text], {type: "text/plain"})), download: name})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}

export function render({model, el}) {
  let data = JSON.parse(model.data), follow = model.layer < 0, cursor = model.layer, night = false
  let inFlight = 0, sentAt = 0, waiting = null, unanswered = [] // the last: numbers of messages sent by hand
  const limits = model.limits
  const last = () => data.messages.length - 1

  // ------------------------------------------------------------------ to Python: sliders wait for the answer to their last word
  function tell(...action) {
    waiting = null
    const seq = nextNumber(); inFlight = seq; sentAt = performance.now()
    model.packet = [seq, ...action]
  }
  function slide(...action) {
    if (inFlight && performance.now() - sentAt < 600) { waiting = action; return }
    tell(...action)
  }
  function act(action, ...numbers) {
    if (drawing.on && action === "node") drawing.mark(numbers[0])
    else if (action === "node") {
      const [i] = numbers, value = data.evidence[i]
      if (i >= data.visible) tell("select", 0, i)
      else tell("evidence", i, value === -1 ? 1 : value === 1 ? 0 : -1)
    } else if (action === "send") { // after those that are still on their way
      clock.stop(); graph.pulse(numbers[0]); follow = true
      tell("send", numbers[0], unanswered.length ? (data.hand >= 0 ? cursor : 0) + unanswered.length : cursor)
      unanswered.push(inFlight)
    }
    else tell(action, ...numbers)
  }

  // ------------------------------------------------------------------ the left side
  const push = (label, attributes, action) => node("button", {type: "button", text: label, ...attributes, onclick: action})
  const graphs = limits.graphs.map(([key, label], i) => push(label, {"data-graph": key}, () => { follow = true; tell("graph", i) }))
  const presets = limits.presets.map((name, i) => push(name, {"data-preset": name}, () => tell("preset", i)))
  function knob(name, words, low, high, step, show, change) {
    const caption = node("span"), output = node("output"), input = node("input", {type: "range", min: low, max: high, step, "aria-label": words, "data-knob": name})
    const row = node("label", {class: "knob"}, node("span", {class: "line"}, caption, output), input)
    caption.textContent = words
    let held = false
    const reach = Number(high)
    input.addEventListener("input", () => { held = true; output.textContent = show(Number(input.value)); slide(...change(Number(input.value))) })
    input.addEventListener("change", () => { held = false; waiting = null; tell(...change(Number(input.value))) })
    return {row, set(value, text, locked = false) {
      if (text && caption.textContent !== text) { caption.textContent = text; input.setAttribute("aria-label", text) }
      const ends = Math.max(reach, Math.ceil(Math.abs(value))) // numbers from a file may lie beyond
      if (low < 0) { input.max = String(ends); input.min = String(-ends) }
      input.disabled = locked; row.title = locked ? "Of the query-trained parameters: show the true ones to change them" : ""
      if (!held) { input.value = String(value); output.textContent = show(Number(value)) }
    }}
  }
  const knobs = {
    strength: knob("strength", "All couplings ×", 0, limits.strength, 0.05, (v) => fixed(v), (v) => ["strength", v]),
    coupling: knob("coupling", "Coupling", -limits.coupling, limits.coupling, 0.05, (v) => signed(v), (v) => ["coupling", data.factor, v]),
    bias: knob("bias", "Bias", -limits.bias, limits.bias, 0.05, (v) => signed(v), (v) => ["bias", data.node, v]),
    temperature: knob("temperature", "Temperature T", 0, 1, 0.05, (v) => `${fixed(v)}${v === 0 ? " max-product" : v === 1 ? " sum-product" : ""}`, (v) => ["temperature", v]),
    damping: knob("damping", "Damping d", 0, limits.damping, 0.05, (v) => fixed(v), (v) => ["damping", v]),
    layers: knob("layers", "Layers N", 1, limits.layers, 1, (v) => String(v), (v) => ["layers", v]),
  }
  const forget = push("Forget evidence", {"data-name": "forget"}, () => tell("forget"))
  const train = push("", {"data-name": "train", class: "wide"}, () => tell(training.running ? "stop" : "train"))
  const bar = node("div", {class: "progress"}, node("i")), scores = node("table", {class: "scores"}), result = node("div"), learnt = node("div")
  const sides = [push("true parameters", {"data-show": 0}, () => tell("show", 0)), push("query-trained", {"data-show": 1}, () => tell("show", 1))]
  const section = (title, ...parts) => node("section", {}, node("h3", {text: title}), ...parts)
  const pencil = push("draw", {"data-name": "draw", title: "Draw your own graph, or open a UAI file"}, () => { clock.stop(); drawing.turn(!drawing.on); come() })
  const lessons = push("exercises", {"data-name": "exercises", title: "Five short exercises: predict, then press"}, () => { follow = true; if (drawing.on) drawing.turn(false); tell("exercise", data.exercise ? 0 : 1); come() })
  const come = () => { if (isNarrow()) middle.scrollIntoView() } // on a phone the graph is above
  const over = push("start over", {"data-name": "start", title: "This graph as it was: nothing observed, nothing sent, all numbers as they were chosen"}, () => { clock.stop(); follow = true; tell("start") })
  const left = node("div", {class: "left"},
    node("section", {}, node("h3", {}, "Graph", node("span", {class: "end"}, lessons, over)), node("div", {class: "row"}, ...graphs, pencil)),
    section("Couplings and biases", node("div", {class: "row"}, ...presets), knobs.strength.row, knobs.coupling.row, knobs.bias.row),
    section("Belief propagation", knobs.temperature.row, knobs.damping.row, knobs.layers.row),
    section("Query training", train, bar, scores))

  // ------------------------------------------------------------------ the middle
  const graph = makeGraph(act), exercise = makeExercise((...action) => { clock.stop(); follow = true; tell(...action) }), badge = node("div", {class: "badge", role: "status"}), where = node("span", {class: "where"})
  const slider = node("input", {type: "range", min: 0, max: 1, value: 0, "aria-label": "layer", "data-knob": "layer"})
  const speeds = [["1 layer/s", 1000, 1], ["2 layers/s", 500, 1], ["3 layers/s", 334, 1], ["15 layers/s", 334, 5]] // no more than three pictures a second
  const speed = node("select", {"aria-label": "speed", "data-knob": "speed"}, ...speeds.map(([name], k) => node("option", {value: k, text: name, selected: k === 1})))
  const [pace, stride] = [1, 2].map((k) => () => speeds[Number(speed.value)][k])
  const clock = makeClock({at: () => cursor, last, put, move, wait: pace, stride})
  const HOW = ["In each layer every message is sent, all from the layer before", "In each layer one factor after the other is updated, each from the latest messages",
    "As sequential, in another order in each layer; every run has the same orders", "In each layer those factors are updated whose messages would change most"]
  const modes = limits.schedules.map((name, k) => push(name, {"data-schedule": name, title: HOW[k]}, () => { clock.stop(); follow = true; tell("schedule", k) }))
  const manual = push("by hand", {"data-schedule": "hand", title: "From messages that are all 0: each click on an arrow sends that one message"}, byHand)
  const reset = push("reset messages", {"data-name": "reset", title: "All messages are 0 again"}, byHand)
  function byHand() { clock.stop(); follow = true; tell("hand", 0) }
  const ramp = node("i", {class: "ramp"}), explain = node("div", {class: "formula"})
  const legend = node("div", {class: "legend"}, node("span", {}, node("i", {class: "key disc"}), "disc: belief P(1)"), node("span", {}, node("i", {class: "key ring"}), "ring: exact"),
    node("span", {}, "square: observed"), node("span", {class: "scale"}, "arrow: message, log-odds −4 ", ramp, " +4"))
  const lead = node("span", {class: "lead"}, node("div"), node("div"))
  const HINTS = {watch: ["Click a variable: unobserved → 1 → 0.", "Click an arrow: send that message."], draw: ["Click an empty place: a variable. Drag it.", "Click two or three, then connect them."]}
  const say = (sentence) => { notice.textContent = sentence; notice.hidden = !sentence }
  const drawing = makeDrawing({graph, look: () => data, tell: (...action) => { follow = true; say(""); tell(...action) }, redraw: () => draw(), say, limits, over: () => pencil.focus({preventScroll: true}), open: (bytes) => {
    const message = new Uint8Array(4 + bytes.length)
    new DataView(message.buffer).setUint32(0, Math.floor(Math.random() * 2 ** 32), true) // the same file twice is two uploads
    message.set(bytes, 4)
    say(""); model.notice = "" // here and in Python: the same problem may come again
    model.file = message.buffer
  }})
  const schedule = node("div", {class: "schedule", role: "group", "aria-label": "schedule"}, node("span", {text: "Schedule"}), ...modes, manual, reset)
  const middle = node("div", {class: "middle"},
    node("div", {class: "top"}, lead, forget, badge),
    node("div", {class: "result", role: "status", title: "LBP after N layers against the exact marginals of the true parameters"}, result, learnt), graph.root, legend,
    node("div", {class: "controls"}, button("first", "Back to the start (Home)", () => move(0), true), button("back", "Previous (←)", () => move(cursor - 1), true),
      clock.face, button("forward", "Next (→)", () => move(cursor + 1), true), button("last", "To the end (End)", () => move(Infinity), true), slider, where, speed),
    schedule, drawing.row, explain, exercise.root)

  // ------------------------------------------------------------------ the right side
  const bars = node("div"), logZ = node("div", {class: "logz", title: "Of the parameters that are shown, given what is observed: what the messages of this layer say, and the sum over all states"}), residual = node("div"), curve = node("div"), barsHead = node("h3"), residualHead = node("h3"), curveHead = node("h3")
  const key = (name, label) => node("span", {class: "entry"}, node("i", {class: `key ${name}`}), label)
  const right = node("div", {class: "right"},
    node("section", {}, barsHead, bars, logZ), node("section", {}, residualHead, residual), node("section", {}, curveHead, curve))
  const notice = node("div", {class: "notice", role: "alert"})
  const root = node("div", {class: "qt lab", tabindex: -1}, left, middle, right, notice)
  focusWhenSkipped(model, root)
  let training = JSON.parse(model.training || "{}")

  // ------------------------------------------------------------------ the cursor
  function move(layer) {
    clock.stop()
    cursor = Math.max(0, Math.min(layer, last())); follow = cursor === last()
    model.layer = follow ? -1 : cursor
    draw()
  }
  function put(layer) { follow = false; cursor = layer; draw() }

  // ------------------------------------------------------------------ drawing
  function draw() {
    const {set, names} = data, hand = data.hand >= 0, message = spoken(data, cursor)
    graph.update(data, cursor, night, drawing.marked)
    drawing.draw(); schedule.hidden = drawing.on
    lead.childNodes.forEach((line, k) => { line.textContent = HINTS[drawing.on ? "draw" : "watch"][k] })
    pencil.setAttribute("aria-pressed", String(drawing.on)); pencil.classList.toggle("own", data.graph === "own")
    lessons.setAttribute("aria-pressed", String(Boolean(data.exercise)))
    graphs.forEach((each) => each.setAttribute("aria-pressed", String(each.dataset.graph === data.graph)))
    const {couplings, biases} = data.shown ? {couplings: data.numbers.map(([w]) => w), biases: data.biases} : set, locked = data.shown === 1 // those that are shown
    knobs.strength.set(set.strength, "", locked); knobs.temperature.set(set.temperature); knobs.damping.set(set.damping); knobs.layers.set(set.layers)
    const scope = (data.factors[data.factor] ?? []).map((i) => label(names[i])), none = !scope.length
    knobs.coupling.set(none ? 0 : couplings[data.factor], none ? "No coupling" : scope.length === 3 ? `Factor ${scope.join(", ")}` : `Coupling ${scope.join(" – ")}`, locked || none)
    knobs.bias.set(biases[data.node], `Bias of ${label(names[data.node])}`, locked)
    forget.disabled = data.evidence.every((each) => each < 0)
    slider.max = String(last()); slider.value = String(cursor); slider.setAttribute("aria-valuetext", `${hand ? "message" : "layer"} ${cursor} of ${last()}`)
    where.textContent = `${hand ? "sent" : "layer"} ${cursor} / ${last()}`
    for (const each of [...modes, manual]) each.setAttribute("aria-pressed", String(each.dataset.schedule === (hand ? "hand" : data.schedule)))
    reset.hidden = !hand
    const [word, period] = data.verdicts[cursor]
    const off = data.exact.map((q, n) => Math.abs(q - data.beliefs[cursor][n])).filter((_, n) => data.evidence[n] < 0), largest = Math.max(0, ...off)
    badge.textContent = {converged: largest < SMALL ? "✓ converged, correct" : `converged, off by ${fixed(largest)}`, oscillating: `∿ oscillating, period ${period}`, "not yet": "… not converged"}[word]
    badge.dataset.word = word; badge.classList.toggle("off", largest >= SMALL)
    badge.title = "converged: no message changes by more than 1e−6, which does not make the beliefs correct: the number is their largest error. "
      + "oscillating: the messages repeat after 2 or more layers and the residual does not fall. not converged: neither."
    const mean = off.length ? off.reduce((a, b) => a + b) / off.length : 0
    barsHead.replaceChildren(key("belief", data.shown ? "query-trained" : "belief"), key("exact", data.shown ? "exact, true parameters" : exactly(data)), node("small", {class: "end", text: `mean |error| ${fixed(mean, 3)}`}))
    residualHead.replaceChildren(hand ? "Largest change still due" : "Residual: largest change of a message", node("small", {class: "end", text: data.residual[cursor] ? data.residual[cursor].toExponential(1).replace("-", "−") : "0"}))
    curveHead.replaceChildren("Transfer f", node("sub", {text: "w"}), `(x; T), w = ${none ? "0" : fixed(data.numbers[data.factor][0])}`, node("small", {class: "end"}, key("line", `T = ${fixed(set.temperature)}`), key("line zero", "0"), key("line one", "1")))
    drawBars(bars, data, cursor); drawLogZ(logZ, data, cursor); drawResidual(residual, data, cursor, move); drawTransfer(curve, data, message); formula(explain, data, message, cursor)
    exercise.draw(data.exercise); explain.hidden = Boolean(data.exercise)
    Object.assign(root.dataset, {layer: cursor, last: last(), seq: data.seq, graph: data.graph, mode: hand ? "hand" : "parallel", run: data.schedule, shown: data.shown, exercise: data.exercise?.number ?? 0, drawing: drawing.on})
    drawTraining()
  }
  function drawTraining() {
    const {running = false, progress = 0, before = null, after = null, words = "", warning = false} = training
    train.textContent = running ? "Stop" : after ? "Train again" : `Query-train this graph (${limits.seconds} s)`
    bar.firstChild.style.width = `${100 * progress}%`; bar.classList.toggle("on", running)
    const number = (score, k, digits) => score ? fixed(score[k], digits) : "–"
    const tone = (k, digits, higher) => before && after && number(before, k, digits) !== number(after, k, digits) ? (after[k] > before[k]) === higher ? "better" : "worse" : ""
    const row = (label, title, k, digits, higher) => {
      const better = tone(k, digits, higher)
      return node("tr", {title}, node("th", {text: label}), node("td", {text: number(before, k, digits), "data-score": `before-${k}`}), node("td", {class: better, text: number(after, k, digits) + (better ? better === "better" ? " ✓" : " ✗" : ""), "data-score": `after-${k}`}))
    }
    sides.forEach((each, k) => { each.disabled = k === 1 && !after; each.setAttribute("aria-pressed", String(data.shown === k)) })
    const cell = (side) => { const made = node("td"); made.append(side); return made }
    scores.replaceChildren(node("tr", {}, node("th", {text: "show"}), ...sides.map(cell)),
      row("LBP error", "Mean |LBP − exact marginal of the true parameters| over the targets of 400 queries", 1, 3, false), row("NCE, bits", "−log2 of what LBP gives to the true value, per target", 2, 3, false),
      row("log2 p(v)", "Exact mean log-likelihood in bits, per sample of the true parameters", 0, 2, true))
    result.replaceChildren("Mean error of LBP over 400 queries: ", node("b", {text: number(before, 1, 3), "data-error": "true"}), " with the true parameters",
      ...(after ? [", ", node("b", {class: tone(1, 3, false), text: number(after, 1, 3), "data-error": "trained"}), " query-trained"] : []))
    learnt.textContent = words; learnt.classList.toggle("warning", warning)
    root.dataset.training = running ? "running" : after ? "done" : "none"
  }
  const dark = () => {
    const now = isDark(el)
    root.classList.toggle("dark", now)
    ramp.style.background = `linear-gradient(90deg, ${[-1, -0.5, 0, 0.5, 1].map((v) => rgb(diverging(v, now))).join(", ")})`
    if (now !== night) { night = now; draw() }
  }

  // ------------------------------------------------------------------ events
  slider.addEventListener("input", () => { clock.stop(); cursor = Math.min(Number(slider.value), last()); follow = cursor === last(); draw() })
  slider.addEventListener("change", () => move(Number(slider.value)))
  listenForKeys(model, root, true, clock.key)
  model.on("data", () => {
    const next = JSON.parse(model.data)
    const switched = next.graph !== data.graph || (next.hand >= 0) !== (data.hand >= 0) || next.schedule !== data.schedule
    data = next
    if (switched) { clock.stop(); follow = true }
    drawing.forget(next.names.length)
    if (follow && !clock.running) cursor = last()
    cursor = Math.min(cursor, last())
    if (data.seq >= inFlight) inFlight = 0
    unanswered = unanswered.filter((seq) => seq > data.seq)
    draw()
    if (!inFlight && waiting) tell(...waiting)
  })
  model.on("training", () => { training = JSON.parse(model.training || "{}"); drawTraining() })
  model.on("layer", () => { const wanted = model.layer < 0 ? last() : Math.min(model.layer, last()); if (wanted !== cursor && !clock.running) { follow = model.layer < 0; cursor = wanted; draw() } })
  const tellNotice = () => say(model.notice)
  model.on("notice", tellNotice)
  model.on("saved", () => download(JSON.parse(model.saved)))
  model.on("remove", clock.stop)
  watchTheme(model, dark)
  cursor = follow ? last() : Math.min(Math.max(0, cursor), last())
  draw(); dark(); tellNotice()
  return root
}
