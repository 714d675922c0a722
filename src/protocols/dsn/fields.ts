/**
 * @module The content of a DSN (RFC 3464, RFC 6533), which `parse.ts` creates. Parses groups of header-like fields, as in
 * a delivery status (RFC 3464 §2.1) and in returned headers, and reads the Message-ID and the return path of the original
 * email from these. Accepts any text, within limits and in linear time.
 */

export interface DsnRecipient {
  /**
   * `failed`: permanently not delivered. `none`: neither failed nor delivered, because the address was only verified,
   * or because action and status contradict each other.
   */
  readonly action: 'failed' | 'delayed' | 'delivered' | 'relayed' | 'expanded' | 'none'
  /** Address that the report is about, without its type; null: not stated. */
  readonly finalRecipient: string | null
  /** Address that the sender used, without its type. */
  readonly originalRecipient: string | null
  /** Enhanced status code (RFC 3463), such as `5.1.1`; null: none. */
  readonly status: string | null
  /** Reply of the rejecting server, without its type, unfolded. */
  readonly diagnostic: string | null
  /** Name of the rejecting server, without its type. */
  readonly remoteMta: string | null
}

export interface Dsn {
  /** At least one recipient; the number is limited. */
  readonly recipients: readonly DsnRecipient[]
  /**
   * Message-ID of the original message with angle brackets, as in the returned message or headers; null: not returned.
   */
  readonly originalMessageId: string | null
  /**
   * Our sender address of the original message, from the returned headers: Return-Path and the like; the length is
   * limited.
   */
  readonly originalReturnPath: string | null
}

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

export type ReturnedEmail = Pick<Dsn, 'originalMessageId' | 'originalReturnPath'>

export const NOTHING_RETURNED: ReturnedEmail = { originalMessageId: null, originalReturnPath: null }

const MAX_HEADER_LENGTH = 128 * 1024
const MAX_ADDRESS_LENGTH = 320

const RETURN_PATHS = ['return-path', 'x-return-path', 'x-envelope-from', 'x-original-return-path']
/** Exim and other servers record the return path in Received. */
const ENVELOPE_FROM = /envelope-(?:from|sender)[ =<]{1,3}([^\s<>();]{3,320})/i

/** Reads the first header block of a text; the text goes on with the body, which is not read. */
export function parseReturned(text: string): ReturnedEmail {
  const head = text.slice(0, MAX_HEADER_LENGTH)
  const [fields] = parseFieldGroups(head, 1)
  if (!fields) return NOTHING_RETURNED
  const returnPath = RETURN_PATHS.map((name) => findAddress(fields.get(name))).find((address) => address !== undefined)
  return {
    originalMessageId: findMessageId(fields.get('message-id')),
    originalReturnPath: returnPath ?? ENVELOPE_FROM.exec(head)?.[1] ?? null,
  }
}

/** Returns the first Message-ID in a header value, with angle brackets; null: none. RFC 5322 §3.6.4. */
export const findMessageId = (value: string | undefined): string | null =>
  /<[^<>\s]{1,500}>/.exec(value?.slice(0, MAX_ADDRESS_LENGTH * 4) ?? '')?.[0] ?? null

const findAddress = (value: string | undefined): string | undefined =>
  /[^\s<>,;:()"]{1,64}@[^\s<>,;:()"]{1,255}/.exec(value?.slice(0, MAX_ADDRESS_LENGTH * 4) ?? '')?.[0]
