/**
 * @module Parses groups of header-like fields, as in a delivery status (RFC 3464 §2.1) and in returned headers. Accepts
 * any text, within limits and in linear time.
 */

/** Fields by name in lower case; the first field of each name, unfolded. */
export type Fields = ReadonlyMap<string, string>

const FIELD = /^([!-9;-~]{1,80})[ \t]*:[ \t]*/
const MAX_VALUE_LENGTH = 4000
const MAX_FIELDS = 500

/**
 * Returns at most `maxGroups` groups of fields from a text in which blank lines separate the groups. Skips lines that
 * are not fields.
 * @param groupStarters names that start a new group when they repeat, for senders that omit the blank line
 */
export function parseFieldGroups(
  text: string,
  maxGroups: number,
  groupStarters: ReadonlySet<string> = new Set(),
): Fields[] {
  const groups: Map<string, string>[] = []
  let group = new Map<string, string>()
  let name: string | undefined
  const close = () => {
    if (group.size > 0) groups.push(group)
    group = new Map()
    name = undefined
  }
  for (const line of splitLines(text)) {
    if (groups.length >= maxGroups) return groups
    if (line.trim() === '') {
      close()
      continue
    }
    if (line.startsWith(' ') || line.startsWith('\t')) {
      const value = name === undefined ? undefined : group.get(name)
      if (name !== undefined && value !== undefined && value.length < MAX_VALUE_LENGTH)
        group.set(name, `${value} ${line.trim()}`.trim().slice(0, MAX_VALUE_LENGTH))
      continue
    }
    const match = FIELD.exec(line)
    name = match?.[1]?.toLowerCase()
    if (!match || name === undefined) continue
    if (group.has(name) && groupStarters.has(name)) {
      const next = name
      close()
      name = next
    }
    // Ignores a repeated field together with its folded lines, which must not be added to the first field of that name.
    if (group.has(name) || group.size >= MAX_FIELDS) name = undefined
    else group.set(name, line.slice(match[0].length, match[0].length + MAX_VALUE_LENGTH).trim())
  }
  close()
  return groups.slice(0, maxGroups)
}

export const splitLines = (text: string): string[] => text.split(/\r\n|\r|\n/)
