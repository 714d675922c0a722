/** @module The network that an address of a stranger counts as. */

/**
 * The key under which an address is counted: IPv4 as it is, also when mapped into IPv6; of IPv6 its first 64 bits, because that is what one customer
 * gets. Takes what a socket says.
 */
export function networkOf(address: string): string {
  const text = address.toLowerCase().replace(/%.*$/, '')
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  if (mapped?.[1] !== undefined) return mapped[1]
  if (!text.includes(':')) return text
  const [before = '', after] = text.split('::')
  const head = before === '' ? [] : before.split(':')
  const tail = after === undefined || after === '' ? [] : after.split(':')
  // `::` stands for as many groups as are missing of eight.
  const groups =
    after === undefined
      ? head
      : [...head, ...Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0'), ...tail]
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
