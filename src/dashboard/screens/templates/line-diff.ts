/** @module What differs between two texts, line by line. */

export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added'
  readonly text: string
}

export interface DiffGap {
  readonly kind: 'gap'
  readonly lines: number
}

/** With more changed lines, what lies between the first and the last is shown as replaced. */
const MAX_CHANGES = 1000
const CONTEXT_LINES = 3

/** All lines of both texts, in order (Myers 1986). */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, now] = [toLines(before), toLines(after)]
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start++
  let end = 0
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++
  const toKind = (lines: readonly string[], kind: DiffLine['kind']): DiffLine[] => lines.map((text) => ({ kind, text }))
  return [
    ...toKind(old.slice(0, start), 'same'),
    ...diffMiddle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...toKind(old.slice(old.length - end), 'same'),
  ]
}

/** An empty text has no line. */
const toLines = (text: string): readonly string[] => (text === '' ? [] : text.split(/\r?\n/))

function diffMiddle(old: readonly string[], now: readonly string[]): readonly DiffLine[] {
  const trace = findTrace(old, now)
  if (!trace)
    return [
      ...old.map((text) => ({ kind: 'removed', text }) as const),
      ...now.map((text) => ({ kind: 'added', text }) as const),
    ]
  const lines: DiffLine[] = []
  let [x, y] = [old.length, now.length]
  for (let changes = trace.length - 1; changes >= 0; changes--) {
    const reached = trace[changes] ?? new Map<number, number>()
    const diagonal = x - y
    const isAdded = comesFromAbove(reached, diagonal, changes)
    const from = isAdded ? diagonal + 1 : diagonal - 1
    const fromX = changes === 0 ? 0 : (reached.get(from) ?? 0)
    const fromY = changes === 0 ? 0 : fromX - from
    while (x > fromX && y > fromY) {
      lines.push({ kind: 'same', text: old[x - 1] ?? '' })
      x--
      y--
    }
    if (changes === 0) break
    if (isAdded) lines.push({ kind: 'added', text: now[y - 1] ?? '' })
    else lines.push({ kind: 'removed', text: old[x - 1] ?? '' })
    x = fromX
    y = fromY
  }
  return lines.reverse()
}

const comesFromAbove = (reached: ReadonlyMap<number, number>, diagonal: number, changes: number): boolean =>
  diagonal === -changes ||
  (diagonal !== changes && (reached.get(diagonal - 1) ?? -1) < (reached.get(diagonal + 1) ?? -1))

/** How far each diagonal was reached before each change; undefined: there are too many changes. */
function findTrace(old: readonly string[], now: readonly string[]): readonly Map<number, number>[] | undefined {
  const trace: Map<number, number>[] = []
  let reached = new Map<number, number>([[1, 0]])
  for (let changes = 0; changes <= Math.min(old.length + now.length, MAX_CHANGES); changes++) {
    trace.push(reached)
    const next = new Map<number, number>()
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      let x = comesFromAbove(reached, diagonal, changes)
        ? (reached.get(diagonal + 1) ?? 0)
        : (reached.get(diagonal - 1) ?? 0) + 1
      while (x < old.length && x - diagonal < now.length && old[x] === now[x - diagonal]) x++
      next.set(diagonal, x)
      if (x >= old.length && x - diagonal >= now.length) return trace
    }
    reached = next
  }
  return undefined
}

/** The changes with some lines around them; empty when the texts are the same. */
export function summariseDiff(lines: readonly DiffLine[]): readonly (DiffLine | DiffGap)[] {
  const isShown = new Array<boolean>(lines.length).fill(false)
  for (const [index, { kind }] of lines.entries())
    if (kind !== 'same') isShown.fill(true, Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1)
  if (!isShown.includes(true)) return []
  const shown: (DiffLine | DiffGap)[] = []
  let hidden = 0
  for (const [index, line] of lines.entries()) {
    if (!isShown[index]) {
      hidden++
      continue
    }
    if (hidden > 0) shown.push({ kind: 'gap', lines: hidden })
    hidden = 0
    shown.push(line)
  }
  if (hidden > 0) shown.push({ kind: 'gap', lines: hidden })
  return shown
}
