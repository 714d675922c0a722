/** @module Reads where an operator redirects mail: a mail domain or a host, with an optional port. Pure. */
import { isIP } from 'node:net'
import { parseDomain } from '#protocols/address/domain.ts'

export interface RedirectTarget {
  readonly host: string
  /** Whether the host itself is dialled; otherwise its MX hosts are, if it has any. */
  readonly isHost: boolean
  /** Undefined: the port for all mail. */
  readonly port: number | undefined
}

const TARGET = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/
const MAX_PORT = 65_535

/**
 * Reads `example.com` (its MX hosts, or else its address), `[mx.example.com]` (this host), `192.0.2.7` or
 * `[2001:db8::7]`, each with `:2525` or without. Undefined for any other text.
 */
export function parseTarget(text: string): RedirectTarget | undefined {
  const [, bracketed, bare, digits] = TARGET.exec(text.trim()) ?? []
  const name = bracketed ?? bare
  if (name === undefined) return undefined
  const port = digits === undefined ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > MAX_PORT)) return undefined
  if (isIP(name)) return { host: name, isHost: true, port }
  const parsed = parseDomain(name)
  return parsed.kind === 'invalid' ? undefined : { host: parsed.domain, isHost: bracketed !== undefined, port }
}

/** A target as `parseTarget` reads it. */
export const formatTarget = ({ host, isHost, port }: RedirectTarget): string =>
  `${isHost ? `[${host}]` : host}${port === undefined ? '' : `:${port}`}`
