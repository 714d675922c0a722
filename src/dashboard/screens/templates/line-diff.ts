/** @module What differs between two texts, line by line. */

export interface DiffLine {
  readonly kind: 'same' | 'removed' | 'added'
  readonly text: string
}

export interface DiffGap {
  readonly kind: 'gap'
  readonly lines: number
}

/** Texts in which more lines are compared with more lines are shown as replaced between the first and the last change. */
const MAX_COMPARISONS = 4_000_000
const CONTEXT_LINES = 3

/** All lines of both texts, in order. */
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
  const width = now.length + 1
  const isCompared = old.length * now.length <= MAX_COMPARISONS
  // How many lines the rest of both texts has in common, from each pair of lines on.
  const common = new Uint16Array(isCompared ? (old.length + 1) * width : 0)
  const commonFrom = (x: number, y: number): number => common[x * width + y] ?? 0
  for (let x = isCompared ? old.length - 1 : -1; x >= 0; x--)
    for (let y = now.length - 1; y >= 0; y--)
      common[x * width + y] =
        old[x] === now[y] ? commonFrom(x + 1, y + 1) + 1 : Math.max(commonFrom(x + 1, y), commonFrom(x, y + 1))
  const lines: DiffLine[] = []
  for (let x = 0, y = 0; x < old.length || y < now.length; ) {
    const [before, after] = [old[x], now[y]]
    const isSame = isCompared && before !== undefined && before === after
    const isRemoved = before !== undefined && (after === undefined || commonFrom(x + 1, y) >= commonFrom(x, y + 1))
    lines.push({ kind: isSame ? 'same' : isRemoved ? 'removed' : 'added', text: (isRemoved ? before : after) ?? '' })
    if (isSame || isRemoved) x++
    if (isSame || !isRemoved) y++
  }
  return lines
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
