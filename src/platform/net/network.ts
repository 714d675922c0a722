/** @module Maps a remote client's address to the networks under which it is counted. */

/**
 * The network under which an address is counted. For an IPv4 address, also one mapped into IPv6, that is the address
 * itself; for an IPv6 address its /64, because a provider assigns one to each customer. Accepts an address as a socket
 * reports it.
 */
export const networkOf = (address: string): string => networksOf(address)[0] ?? address

/**
 * The networks of an address, smallest first. An IPv4 address has only itself. An IPv6 address has its /64, and the /56
 * and /48 that one customer may have (RFC 6177 §2), so that such a customer does not get the limits of 256 or 65,536
 * networks. Accepts an address as a socket reports it.
 */
export function networksOf(address: string): readonly string[] {
  const text = (address.split('%', 1)[0] ?? '').toLowerCase()
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  if (mapped?.[1] !== undefined) return [mapped[1]]
  if (!text.includes(':')) return [text]
  const [before = '', after] = text.split('::')
  const head = before === '' ? [] : before.split(':')
  const tail = after === undefined || after === '' ? [] : after.split(':')
  // `::` stands for the zero groups that are missing from eight.
  const groups =
    after === undefined
      ? head
      : [...head, ...Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0'), ...tail]
  const [a = 0, b = 0, c = 0, d = 0] = groups.slice(0, 4).map((group) => Number.parseInt(group, 16))
  const named = (bits: number, ...leading: number[]): string =>
    `${leading.map((group) => group.toString(16)).join(':')}::/${bits}`
  return [named(64, a, b, c, d), named(56, a, b, c, d & 0xff00), named(48, a, b, c)]
}
