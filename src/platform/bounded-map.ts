/** @module Maps that remember the newest entries only. */

/** Stores an entry as the newest one; if there are more than `max`, the oldest is forgotten. */
export function storeNewest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): void {
  // Deleted first, because a map keeps the place of a key that it has.
  map.delete(key)
  map.set(key, value)
  const [oldest] = map.size > max ? map.keys() : []
  if (oldest !== undefined) map.delete(oldest)
}
