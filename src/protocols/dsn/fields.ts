/** @module Groups of header-like fields, as in a delivery status (RFC 3464 §2.1) and in returned headers. Bounded, linear, takes any text. */

/** By name in lower case; the first of each name, unfolded. */
export type Fields = ReadonlyMap<string, string>

const FIELD = /^([!-9;-~]{1,80})[ \t]*:[ \t]*/
const MOST_VALUE_CHARACTERS = 4000
const MOST_FIELDS = 500

/**
 * The groups of a text that blank lines separate, at most `mostGroups`. Lines that are no field are passed over.
 * @param opens names that begin a new group where they stand for the second time, for those who forget the blank line
 */
export function fieldGroups(text: string, mostGroups: number, opens: ReadonlySet<string> = new Set()): Fields[] {
  const groups: Map<string, string>[] = []
  let group = new Map<string, string>()
  let name: string | undefined
  const close = () => {
    if (group.size > 0) groups.push(group)
    group = new Map()
    name = undefined
  }
  for (const line of linesOf(text)) {
    if (groups.length >= mostGroups) return groups
    if (line.trim() === '') {
      close()
      continue
    }
    if (line.startsWith(' ') || line.startsWith('\t')) {
      const value = name === undefined ? undefined : group.get(name)
      if (name !== undefined && value !== undefined && value.length < MOST_VALUE_CHARACTERS)
        group.set(name, `${value} ${line.trim()}`.trim().slice(0, MOST_VALUE_CHARACTERS))
      continue
    }
    const match = FIELD.exec(line)
    name = match?.[1]?.toLowerCase()
    if (!match || name === undefined) continue
    if (group.has(name) && opens.has(name)) {
      const next = name
      close()
      name = next
    }
    // The folded rest of a second one must not be added to the first.
    if (group.has(name) || group.size >= MOST_FIELDS) name = undefined
    else group.set(name, line.slice(match[0].length, match[0].length + MOST_VALUE_CHARACTERS).trim())
  }
  close()
  return groups.slice(0, mostGroups)
}

export const linesOf = (text: string): string[] => text.split(/\r\n|\r|\n/)
