/** @module Finds the route that a client probably meant by a path that no route has. */

/** More differences are another word. */
const MAX_DISTANCE = 3
const MAX_PATH_LENGTH = 120

/**
 * Returns the pattern most like the path, such as `/v1/emails/{id}`; undefined when none is alike. Understands a path
 * without `/v1`, below `/api`, and with underscores.
 * @param patterns of Elysia
 */
export function findNearestRoute(path: string, patterns: readonly string[]): string | undefined {
  const plain = path
    .slice(0, MAX_PATH_LENGTH)
    .toLowerCase()
    .replaceAll('_', '-')
    .replace(/^\/api(?=\/)/, '')
  const segments = (plain.startsWith('/v1/') ? plain : `/v1${plain}`).split('/').filter((segment) => segment !== '')
  let nearest: string | undefined
  let best = MAX_DISTANCE + 1
  for (const pattern of patterns) {
    const distance = measureDistance(segments, pattern.split('/').slice(1), best)
    if (distance < best) [nearest, best] = [pattern, distance]
  }
  return nearest?.replaceAll(/:(\w+)/g, '{$1}')
}

/** The differences of all segments; `limit` when there are as many or more. A parameter is like any segment. */
function measureDistance(segments: readonly string[], pattern: readonly string[], limit: number): number {
  if (segments.length !== pattern.length) return limit
  let sum = 0
  for (const [index, name] of pattern.entries()) {
    const segment = segments[index] ?? ''
    if (name.startsWith(':')) continue
    // A short word that differs in a third of its letters is another one.
    if (Math.abs(segment.length - name.length) > MAX_DISTANCE) return limit
    const distance = countEdits(segment, name)
    sum += distance
    if (sum >= limit || distance * 3 > name.length) return limit
  }
  return sum
}

/** The number of letters to insert, remove or replace (Levenshtein). */
function countEdits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++)
      next.push(Math.min((row[at] ?? 0) + (letter === to[at] ? 0 : 1), (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    row = next
  }
  return row[to.length] ?? 0
}
