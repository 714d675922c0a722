/** @module The networks that an address of a stranger counts as. */

/**
 * The key under which an address is counted: IPv4 as it is, also when mapped into IPv6; of IPv6 its first 64 bits, because that is what one customer
 * gets. Takes what a socket says.
 */
export const networkOf = (address: string): string => networksOf(address)[0] ?? address

/**
 * The networks that an address is in, the smallest first: IPv4 as it is; of IPv6 its /64, and the /56 and /48 that one customer may have as well
 * (RFC 6177 §2), so that whoever has one of those does not have the limits of 256 or 65,536 networks. Takes what a socket says.
 */
export function networksOf(address: string): readonly string[] {
  const text = (address.split('%', 1)[0] ?? '').toLowerCase()
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  if (mapped?.[1] !== undefined) return [mapped[1]]
  if (!text.includes(':')) return [text]
  const [before = '', after] = text.split('::')
  const head = before === '' ? [] : before.split(':')
  const tail = after === undefined || after === '' ? [] : after.split(':')
  // `::` stands for as many groups as are missing of eight.
  const groups =
    after === undefined
      ? head
      : [...head, ...Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0'), ...tail]
  const [a = 0, b = 0, c = 0, d = 0] = groups.slice(0, 4).map((group) => Number.parseInt(group, 16))
  const named = (bits: number, ...leading: number[]): string =>
    `${leading.map((group) => group.toString(16)).join(':')}::/${bits}`
  return [named(64, a, b, c, d), named(56, a, b, c, d & 0xff00), named(48, a, b, c)]
}
