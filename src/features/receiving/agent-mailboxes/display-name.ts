/** @module Reads the display name from a From header. Pure. */
import { parseMailbox } from '#protocols/address/parse.ts'

/** The display name in a From header; null: none. */
export function parseDisplayName(from: string): string | null {
  const parsed = parseMailbox(from)
  const name = parsed.kind === 'ok' ? parsed.name?.trim() : undefined
  return name === undefined || name === '' ? null : name
}
