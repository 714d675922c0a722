/**
 * @module Finds the provider of a lane for the operator's commands and rules: by the MX hosts of its domain, or by where
 * an operator redirects the lane. Looks up DNS only; never contacts a host.
 */
import type { App } from '#features/core/app/app.ts'
import { domainOfLane, SANDBOX_LANE, SIMULATOR_LANE } from '#features/sending/queue/lanes.ts'
import { findRedirect } from '#features/sending/queue/queue-rules.ts'
import type { LaneProviders } from '#features/sending/queue/selection.ts'
import { shuffle } from '#platform/ids.ts'
import { resolveMailHosts } from '#protocols/dns/mail-route.ts'
import { SMARTHOST_PROVIDER } from './policy.ts'
import { parseTarget } from './redirect-target.ts'
import type { ProviderRegistry } from './registry.ts'

type LookupApp = Pick<App, 'config' | 'db' | 'resolver'>

/** The name of the provider; undefined for mail that stays on this machine, and when the MX hosts are not known. */
export async function findLaneProvider(
  app: LookupApp,
  registry: ProviderRegistry,
  lane: string,
): Promise<string | undefined> {
  const domain = domainOfLane(lane)
  if (domain === SANDBOX_LANE || domain === SIMULATOR_LANE || app.config.delivery === 'capture') return undefined
  // Only a redirect that names no provider: others begin from the provider that is found here.
  const redirect = parseTarget(findRedirect(app.db, lane) ?? '')
  if (redirect?.isHost) return registry.providerOfHosts([redirect]).name
  if (!redirect && app.config.delivery === 'relay') return SMARTHOST_PROVIDER
  const mail = await resolveMailHosts(app.resolver, redirect?.host ?? domain, { shuffle })
  return mail.kind === 'ok' ? registry.providerOfHosts(mail.hosts).name : undefined
}

/** The providers of lanes, looked up at the same time. */
export const findLaneProviders = async (
  app: LookupApp,
  registry: ProviderRegistry,
  lanes: Iterable<string>,
): Promise<LaneProviders> =>
  new Map(
    await Promise.all([...lanes].map(async (lane) => [lane, await findLaneProvider(app, registry, lane)] as const)),
  )
