// The graph as SVG: discs are beliefs, rings what is exact, arrows messages, squares third-order factors. Elements are made once
// per graph and then updated.

const NAMESPACE = "http://www.w3.org/2000/svg"
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, tag)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value)
    else made.setAttribute(key, value)
  }
  made.append(...children)
  return made
}

// From −1 (blue) over nothing to +1 (orange): told apart by colour-blind eyes, and in grey by their signs in numbers.
const STOPS = {
  light: [[24, 88, 164], [116, 174, 219], [226, 226, 226], [251, 179, 90], [196, 90, 0]],
  dark: [[86, 170, 255], [52, 112, 178], [70, 76, 82], [186, 118, 34], [255, 165, 60]],
}
function diverging(value, isNight) {
  const stops = isNight ? STOPS.dark : STOPS.light, at = (Math.max(-1, Math.min(1, value)) + 1) * 2, i = Math.min(3, Math.floor(at))
  return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)))
}
const rgb = (colour) => `rgb(${colour.join(",")})`
const readable = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111" : "#fff"

const fixed = (value, digits = 2) => Math.abs(value) >= 1000 ? (value > 0 ? "∞" : "−∞") : value.toFixed(digits).replace("-", "−").replace(/^−(0\.?0*)$/, "$1")
const signed = (value, digits = 2) => (Number(value.toFixed(digits)) > 0 ? "+" : "") + fixed(value, digits)
const STRONG = 4 // log-odds at which colour and width end
const WIDTH = 640, HEIGHT = 490
const label = (name) => name[0] + [...name.slice(1)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("")
const short = (name) => name[0] === "x" ? name.slice(1) : name // as an index
const list = (names) => names.length < 3 ? names.join(" and ") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`

// All messages in the order in which Python numbers them: to which variable, from which others, and what these hear themselves.
function messagesOf(factors) {
  const made = []
  for (const [factor, scope] of factors.entries()) {
    const first = made.length, order = scope.length === 2 ? [1, 0] : [0, 1, 2]
    for (const axis of order) made.push({factor, to: scope[axis], from: scope.filter((_, k) => k !== axis), others: order.map((_, k) => first + k).filter((d) => d !== first + order.indexOf(axis))})
  }
  return made
}

function makeGraph(act) {
  const root = svg("svg", {class: "graph", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "the graph"})
  let made = "", nodes = [], arrows = [], pills = [], R = 34

  const enter = (action) => (event) => { if (event.key === "Enter") { event.preventDefault(); event.stopPropagation(); action(event) } }
  function clickable(attributes, action, ...children) {
    return svg("g", {role: "button", tabindex: 0, ...attributes, onclick: action, onkeydown: enter(action)}, ...children)
  }

  const radius = (data) => data.names.length > 6 ? 34 : 40
  const placed = ([x, y]) => [R + 16 + x * (WIDTH - 2 * R - 50), R + 8 + y * (HEIGHT - 2 * R - 24)]
  function placeAt(event) { // where in the drawing a pointer is
    const box = root.getScreenCTM(), x = (event.clientX - box.e) / box.a, y = (event.clientY - box.f) / box.d
    const within = (v) => Math.round(1000 * Math.max(0, Math.min(1, v))) / 1000
    return [within((x - R - 16) / (WIDTH - 2 * R - 50)), within((y - R - 8) / (HEIGHT - 2 * R - 24))]
  }

  // A square stands in the middle of its three variables, or beside it where one of them is.
  function squareOf(scope, place) {
    const middle = [0, 1].map((c) => scope.reduce((sum, i) => sum + place[i][c] / 3, 0))
    const room = ([x, y]) => Math.min(...place.map(([a, b]) => Math.hypot(a - x, b - y)))
    const options = [middle, ...[[0, -1], [0, 1], [-1, 0], [1, 0]].map(([a, b]) => [middle[0] + 62 * a, middle[1] + 62 * b])]
    return options.find((option) => room(option) > R + 26) ?? options.reduce((a, b) => room(b) > room(a) ? b : a)
  }

  function arrowOf(d, from, to, gap, off, heads) {
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1, v = [(to[0] - from[0]) / length, (to[1] - from[1]) / length], normal = [-v[1], v[0]]
    const start = [from[0] + v[0] * gap + normal[0] * off, from[1] + v[1] * gap + normal[1] * off]
    const end = [to[0] - v[0] * (R + 8) + normal[0] * off, to[1] - v[1] * (R + 8) + normal[1] * off]
    const shape = svg("polygon", {class: "arrow"}), number = svg("text", {class: "value"}), title = svg("title")
    const hit = svg("line", {class: "hit", x1: start[0], y1: start[1], x2: end[0], y2: end[1]})
    const group = clickable({class: "message", "data-message": d}, () => act("send", d), title, hit, shape, number)
    heads.append(group)
    arrows.push({group, shape, number, title, start, end, v, normal})
  }

  function build(data) {
    R = radius(data)
    const place = data.places.map(placed), messages = messagesOf(data.factors)
    const lines = svg("g"), heads = svg("g"), marks = svg("g"), discs = svg("g")
    const centre = [0, 1].map((k) => place.reduce((sum, each) => sum + each[k], 0) / place.length)
    nodes = []; arrows = []; pills = []
    const share = data.visible < data.names.length ? 0.26 : 0.5 // near the visible ones, or those of an RBM would hide each other
    const squares = data.factors.map((scope) => {
      if (scope.length === 3) return squareOf(scope, place)
      const [a, b] = scope.map((i) => place[i])
      return [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])]
    })
    data.factors.forEach((scope, f) => {
      const at = squares[f], three = scope.length === 3
      const ends = three ? scope.map((i) => [at, place[i]]) : [scope.map((i) => place[i])]
      for (const [a, b] of ends) lines.append(svg("line", {class: "edge", x1: a[0], y1: a[1], x2: b[0], y2: b[1]}))
      const text = svg("text", {x: at[0], y: at[1] + 5, "text-anchor": "middle"})
      const pill = clickable({class: three ? "pill three" : "pill", "data-edge": f}, () => act("select", 1, f),
        svg("title"), svg("rect", {x: at[0] - 23, y: at[1] - (three ? 15 : 11), width: 46, height: three ? 30 : 22, rx: three ? 3 : 11}), text)
      marks.append(pill); pills.push({pill, text, at})
    })
    messages.forEach(({factor, to, from}, d) => {
      if (from.length === 2) arrowOf(d, squares[factor], place[to], 30, 8, heads)
      else arrowOf(d, place[from[0]], place[to], R + 8, 11, heads)
    })
    place.forEach(([x, y], i) => nodes.push(nodeAt(x, y, i, centre, data, discs)))
    settle(place, messages)
    replace(lines, heads, marks, discs)
  }

  function nodeAt(x, y, i, centre, data, discs) {
    const title = svg("title"), ring = svg("rect", {class: "ring", x: x - R, y: y - R, width: 2 * R, height: 2 * R})
    const disc = svg("rect", {class: "disc", x: x - R + 8, y: y - R + 8, width: 2 * R - 16, height: 2 * R - 16})
    const name = svg("text", {class: "name", x, y: y - 5, "text-anchor": "middle"}), value = svg("text", {class: "p", x, y: y + 15, "text-anchor": "middle"})
    const away = [x - centre[0], y - centre[1]], side = Math.abs(away[0]) < 20 ? (Math.abs(away[1]) < 20 ? 1 : 0) : Math.sign(away[0]) // labels outside the graph
    const bias = svg("text", {class: "bias", x: x + side * R * 0.72, y: away[1] < -20 ? y - R - (side ? 2 : 7) : y + R + (side ? 12 : 18), "text-anchor": ["end", "middle", "start"][side + 1]})
    const group = clickable({class: `node${i >= data.visible ? " hidden" : ""}`, "data-node": i}, () => act("node", i), title, ring, disc, name, value)
    bias.addEventListener("click", () => act("select", 0, i))
    discs.append(group, bias)
    return {group, ring, disc, name, value, bias, title}
  }

  // The new elements in the place of the old ones; the keyboard stays where it was.
  function replace(...layers) {
    const focused = root.getRootNode().activeElement, kept = root.contains(focused) ? Object.entries(focused.dataset).find(([key]) => ["node", "edge", "message"].includes(key)) : null
    root.replaceChildren(...layers)
    if (kept) (root.querySelector(`[data-${kept[0]}="${kept[1]}"]`) ?? nodes[0].group).focus()
  }

  // Each number beside its arrow, at the first place where it hides nothing.
  function settle(place, messages) {
    const taken = [...place.map(([x, y]) => [x - R, y - R, x + R, y + R]), ...pills.map(({at: [x, y]}) => [x - 23, y - 11, x + 23, y + 11])]
    const overlaps = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
    const along = ({start, end}) => Array.from({length: 11}, (_, k) => [0, 1].map((c) => start[c] + k / 10 * (end[c] - start[c])))
    const shafts = arrows.map((arrow) => along(arrow).map(([x, y]) => [x - 5, y - 5, x + 5, y + 5]))
    for (const [d, {start, end, normal, number}] of arrows.entries()) {
      const anchor = Math.abs(normal[0]) < 0.5 ? "middle" : normal[0] > 0 ? "start" : "end", left = {start: 0, middle: -21, end: -42}[anchor]
      const options = [0.5, 0.38, 0.62, 0.28, 0.72, 0.18, 0.82].map((t) => {
        const x = start[0] + t * (end[0] - start[0]) + normal[0] * 16, y = start[1] + t * (end[1] - start[1]) + normal[1] * 17
        const box = [x + left, y - 9, x + left + 42, y + 9]
        const crossed = shafts.filter((shaft, other) => messages[other].factor !== messages[d].factor && shaft.some((b) => overlaps(box, b))).length
        return {x, y, box, hidden: crossed + 4 * taken.filter((b) => overlaps(box, b)).length}
      })
      const best = options.reduce((a, b) => b.hidden < a.hidden ? b : a)
      taken.push(best.box)
      for (const [key, value] of [["x", best.x], ["y", best.y + 5], ["text-anchor", anchor]]) number.setAttribute(key, value)
    }
  }

  function polygon({start, end, v, normal}, m) {
    const half = 1.2 + 5.8 * Math.min(Math.abs(m) / STRONG, 1), head = half + 5, neck = [end[0] - v[0] * 17, end[1] - v[1] * 17]
    const at = (p, k) => `${(p[0] + normal[0] * k).toFixed(1)},${(p[1] + normal[1] * k).toFixed(1)}`
    return [at(start, half), at(neck, half), at(neck, head), at(end, 0), at(neck, -head), at(neck, -half), at(start, -half)].join(" ")
  }

  // `marked`: the variables that the user who draws has marked; null if nobody draws.
  function update(data, cursor, isNight, marked = null) {
    const wanted = JSON.stringify([data.graph, data.places, data.factors])
    if (made !== wanted) { made = wanted; build(data) }
    root.classList.toggle("drawing", marked !== null)
    updateArrows(data, cursor, isNight, marked !== null)
    updatePills(data, marked !== null)
    updateNodes(data, cursor, isNight, marked)
  }

  function updateArrows(data, cursor, isNight, isDrawing) {
    const messages = data.messages[cursor], crowded = arrows.length > 12, chosen = data.selected, {names} = data
    messagesOf(data.factors).forEach(({from, to}, d) => {
      const arrow = arrows[d], m = messages[d], isChosen = chosen === `m${d}`, last = data.hand >= 0 && cursor > 0 && data.sent[cursor - 1] === d
      arrow.shape.setAttribute("points", polygon(arrow, m))
      arrow.shape.style.fill = rgb(diverging(m / STRONG * 1.2, isNight))
      arrow.group.classList.toggle("chosen", isChosen); arrow.group.classList.toggle("last", last)
      arrow.group.setAttribute("tabindex", isDrawing ? -1 : 0)
      arrow.number.textContent = (crowded && !isChosen && !last) || isDrawing ? "" : signed(m)
      const words = `message from ${from.length === 1 ? names[from[0]] : `the factor with ${list(from.map((i) => names[i]))}`} to ${names[to]}: ${signed(m)}`
      arrow.title.textContent = `${words}. Click to send it now.`
      arrow.group.setAttribute("aria-label", `${words}; send it`)
      arrow.group.dataset.value = String(m)
    })
  }

  function updatePills(data, isDrawing) {
    pills.forEach(({pill, text}, f) => {
      const [w] = data.numbers[f], names = data.factors[f].map((i) => data.names[i]), three = names.length === 3
      text.textContent = signed(w)
      pill.classList.toggle("negative", w < 0); pill.classList.toggle("chosen", data.selected === `e${f}` || (data.selected[0] === "m" && data.factor === f))
      pill.firstChild.textContent = `${three ? "third-order factor" : "coupling"} of ${list(names)}: ${signed(w)}. Click, then ${isDrawing ? "delete it below or " : ""}set it with the slider.`
      pill.setAttribute("aria-label", pill.firstChild.textContent)
    })
  }

  function updateNodes(data, cursor, isNight, marked) {
    nodes.forEach(({group, ring, disc, name, value, bias, title}, i) => {
      const p = data.beliefs[cursor][i], q = data.exact[i], seen = data.evidence[i], fill = diverging(2 * p - 1, isNight)
      const known = seen >= 0, chosen = marked ? marked.has(i) : data.selected === `n${i}`
      ring.setAttribute("rx", known ? 9 : R); disc.setAttribute("rx", known ? 5 : R - 8)
      ring.style.fill = rgb(diverging(2 * q - 1, isNight)); disc.style.fill = rgb(fill)
      name.style.fill = value.style.fill = readable(fill)
      name.textContent = label(data.names[i]); value.textContent = known ? `= ${seen}` : fixed(p)
      bias.textContent = data.biases[i] === 0 && data.selected !== `n${i}` ? "" : `b ${signed(data.biases[i])}`
      group.classList.toggle("known", known); group.classList.toggle("chosen", chosen)
      const state = known ? `observed as ${seen}` : `belief ${fixed(p)}, exact ${fixed(q)}`
      const click = marked ? "Enter marks it, arrow keys move it, Delete deletes it."
        : i < data.visible ? `Click: ${["observed as 1", "unobserved again", "observed as 0"][[-1, 0, 1].indexOf(seen)]}.` : "Hidden: never observed."
      title.textContent = `${data.names[i]}: ${state}. ${click}`
      if (marked) group.setAttribute("aria-pressed", String(chosen)); else group.removeAttribute("aria-pressed")
      Object.assign(group.dataset, {evidence: seen, belief: p})
    })
  }

  function pulse(d) { // a dot along the arrow that was just sent
    const arrow = arrows[d]
    if (!arrow || window.matchMedia("(prefers-reduced-motion: reduce)").matches) return
    const dot = svg("circle", {class: "dot", r: 7, cx: arrow.start[0], cy: arrow.start[1]})
    root.append(dot)
    const moved = dot.animate([{transform: "translate(0, 0)"}, {transform: `translate(${arrow.end[0] - arrow.start[0]}px, ${arrow.end[1] - arrow.start[1]}px)`}], {duration: 350, easing: "ease-in-out"})
    moved.onfinish = () => dot.remove()
  }
  return {root, update, pulse, placeAt}
}
