/** @module The only source of randomness: public UUIDs, secrets, jitter. */
import { randomBytes as nodeRandomBytes, randomInt } from 'node:crypto'

/** A UUID as 16 bytes, the form that the database stores. */
export type UuidBytes = Uint8Array

/** A new UUIDv7 (RFC 9562 §5.7) as 16 bytes. Ordered by time, so inserts append to the unique index. */
export const newUuid = (): UuidBytes => new Uint8Array(Bun.randomUUIDv7('buffer'))

export const randomBytes = (count: number): Uint8Array => new Uint8Array(nodeRandomBytes(count))

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** `count` random characters of [0-9A-Za-z], without bias. */
export const randomBase62 = (count: number): string =>
  Array.from({ length: count }, () => BASE62[randomInt(62)]).join('')

/** A random integer in [0, below). */
export const randomBelow = (below: number): number => randomInt(below)

/** A random fraction in [0, 1), for jitter only. */
export const randomFraction = (): number => Math.random()

/** Returns the items in random order (Fisher-Yates); does not modify the input. */
export function shuffle<T>(items: readonly T[]): T[] {
  const result = [...items]
  for (let i = result.length - 1; i > 0; i--) {
    const j = randomBelow(i + 1)
    ;[result[i], result[j]] = [result[j] as T, result[i] as T]
  }
  return result
}

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Parses UUID text; undefined when it is not a UUID. */
export function parseUuid(text: string): UuidBytes | undefined {
  if (!UUID_PATTERN.test(text)) return undefined
  return Uint8Array.fromHex(text.replaceAll('-', ''))
}

/** Formats 16 bytes as a lower-case UUID. */
export function formatUuid(bytes: UuidBytes): string {
  const hex = bytes.toHex()
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
