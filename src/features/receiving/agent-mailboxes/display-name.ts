/** @module What is read out of headers that strangers wrote. Pure. */
import { parseMailbox } from '#protocols/address/parse.ts'

/** The name in a From header; null when there is none. */
export function parseDisplayName(from: string): string | null {
  const parsed = parseMailbox(from)
  const name = parsed.kind === 'ok' ? parsed.name?.trim() : undefined
  return name === undefined || name === '' ? null : name
}
