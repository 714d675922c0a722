/**
 * @module Finds the provider of a lane: by the MX hosts of its domain, or by where an operator redirects the lane,
 * which it reads: a mail domain or a host, with an optional port. Looks up DNS only; never contacts a host.
 */
import { isIP } from 'node:net'
import type { App } from '#features/core/app/app.ts'
import { domainOfLane, SANDBOX_LANE, SIMULATOR_LANE } from '#features/sending/queue/lanes.ts'
import { findRedirect, type LaneProviders } from '#features/sending/queue/queue-rules.ts'
import { shuffle } from '#platform/ids.ts'
import { parseDomain } from '#protocols/address/domain.ts'
import { resolveMailHosts } from '#protocols/dns/mail-route.ts'
import { registryOf, SMARTHOST_PROVIDER } from './registry.ts'

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

export const formatTarget = ({ host, isHost, port }: RedirectTarget): string =>
  `${isHost ? `[${host}]` : host}${port === undefined ? '' : `:${port}`}`

type LookupApp = Pick<App, 'config' | 'db' | 'resolver'>

/** The name of the provider; undefined for mail that stays on this machine, and when the MX hosts are not known. */
export async function findLaneProvider(app: LookupApp, lane: string): Promise<string | undefined> {
  const domain = domainOfLane(lane)
  if (domain === SANDBOX_LANE || domain === SIMULATOR_LANE || app.config.delivery === 'capture') return undefined
  const registry = registryOf(app.config)
  // Only a redirect that names no provider: others begin from the provider that is found here.
  const redirect = parseTarget(findRedirect(app.db, lane) ?? '')
  if (redirect?.isHost) return registry.providerOfHosts([redirect]).name
  if (!redirect && app.config.delivery === 'relay') return SMARTHOST_PROVIDER
  const mail = await resolveMailHosts(app.resolver, redirect?.host ?? domain, { shuffle })
  return mail.kind === 'ok' ? registry.providerOfHosts(mail.hosts).name : undefined
}

/** The providers of lanes, looked up at the same time. */
export const findLaneProviders = async (app: LookupApp, lanes: Iterable<string>): Promise<LaneProviders> =>
  new Map(await Promise.all([...lanes].map(async (lane) => [lane, await findLaneProvider(app, lane)] as const)))
