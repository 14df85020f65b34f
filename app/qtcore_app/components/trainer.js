// The training of a table: how long, a button, what there is to say, and the bits on held-out cells as they fall.

const WIDE = 214, HIGH = 130, LEFT = 34, BELOW = 18, ABOVE = 14, AT = "http://www.w3.org/2000/svg"

function drawn(tag, attributes, text) {
  const made = document.createElementNS(AT, tag)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  if (text !== undefined) made.textContent = text
  return made
}

export function render({model, el}) {
  const root = node("div", {class: "qt trainer"}), chart = node("div", {class: "chart"}), words = node("div", {class: "words", role: "status"})
  const bar = node("progress", {max: 1, "aria-label": "how far the training is"})
  const time = node("select", {"aria-label": "how long to train"}, ...model.times.map((text, k) => node("option", {value: k, text})))
  const start = node("button", {type: "button", class: "main", text: "Train", onclick: () => { model.packet = [nextNumber(), "train", Number(time.value)] }})
  const stop = node("button", {type: "button", text: "Stop", title: "Stop here, with the best so far", onclick: () => { model.packet = [nextNumber(), "stop"] }})
  root.append(node("h3", {text: "Train"}), node("div", {class: "row"}, start, stop, time), bar, words, chart)

  function curve() {
    const points = model.curve
    if (!points.length) { chart.replaceChildren(); return }
    const values = points.map(([, bits]) => bits).concat(model.baseline ?? [])
    let low = Math.min(...values), high = Math.max(...values)
    const pad = Math.max((high - low) * 0.1, 0.01); low -= pad; high += pad
    const x = (step) => LEFT + step / Math.max(1, model.steps) * (WIDE - LEFT - 6), y = (bits) => ABOVE + (high - bits) / (high - low) * (HIGH - ABOVE - BELOW)
    const svg = drawn("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `bits per held-out cell, now ${points.at(-1)[1].toFixed(3)}`})
    for (const share of [0.1, 0.5, 0.9]) {
      const bits = low + share * (high - low)
      svg.append(drawn("line", {class: "axis", x1: LEFT, x2: WIDE - 6, y1: y(bits), y2: y(bits)}), drawn("text", {x: LEFT - 4, y: y(bits) + 3.5, "text-anchor": "end"}, bits.toFixed(2)))
    }
    svg.append(drawn("text", {x: LEFT, y: HIGH - 4}, "step 0"), drawn("text", {x: WIDE - 6, y: HIGH - 4, "text-anchor": "end"}, String(model.steps)))
    if (model.baseline !== null) svg.append(drawn("line", {class: "baseline", x1: LEFT, x2: WIDE - 6, y1: y(model.baseline), y2: y(model.baseline)}),
      drawn("text", {x: WIDE - 6, y: y(model.baseline) - 4, "text-anchor": "end"}, "frequencies alone"))
    svg.append(drawn("path", {class: "curve", d: points.map(([step, bits], k) => `${k ? "L" : "M"}${x(step).toFixed(1)} ${y(bits).toFixed(1)}`).join("")}))
    const [step, bits] = points.at(-1)
    svg.append(drawn("circle", {class: "dot", cx: x(step), cy: y(bits), r: 3}))
    chart.replaceChildren(node("h3", {}, "Bits per held-out cell ", node("b", {text: bits.toFixed(3)})), svg)
  }
  function draw() {
    start.disabled = !model.ready || model.running; time.disabled = model.running; stop.disabled = !model.running
    bar.value = model.share; bar.style.visibility = model.running ? "visible" : "hidden"
    words.textContent = model.words
    root.dataset.running = String(model.running)
    curve()
  }
  for (const name of ["ready", "running", "share", "words", "curve", "steps", "baseline"]) model.on(name, draw)
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
