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
  const [nearest] = patterns
    .map((pattern) => ({ pattern, distance: measureDistance(segments, pattern.split('/').slice(1)) }))
    .filter(({ distance }) => distance <= MAX_DISTANCE)
    .sort((a, b) => a.distance - b.distance)
  return nearest?.pattern.replaceAll(/:(\w+)/g, '{$1}')
}

/** The differences of all segments; a parameter is like any segment. */
function measureDistance(segments: readonly string[], pattern: readonly string[]): number {
  if (segments.length !== pattern.length) return Number.POSITIVE_INFINITY
  const distances = pattern.map((name, index) => {
    const distance = name.startsWith(':') ? 0 : countEdits(segments[index] ?? '', name)
    // A short word that differs in more than a third of its letters is another one.
    return distance * 3 > name.length ? Number.POSITIVE_INFINITY : distance
  })
  return distances.reduce((sum, distance) => sum + distance, 0)
}

/** The number of letters to insert, remove or replace (Levenshtein); infinite when the lengths differ by too many. */
function countEdits(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > MAX_DISTANCE) return Number.POSITIVE_INFINITY
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++)
      next.push(Math.min((row[at] ?? 0) + (letter === to[at] ? 0 : 1), (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    row = next
  }
  return row[to.length] ?? 0
}
