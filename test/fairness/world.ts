/**
 * @module The fixtures of the fairness harness: a data directory with honest tenants and attackers, and the DNS zone of
 * all their recipients. Created once; each attack gets a copy.
 */
import { join } from 'node:path'
import { openApp } from '#app/create.ts'
import { loadConfig } from '#app/settings.ts'
import type { Plan } from '#features/core/accounts/plans.ts'
import type { Actor } from '#features/core/app/app.ts'
import { count } from '#features/core/events/record.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createApiKey } from '#features/setup/api-keys/keys.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { toAccountMetric } from '#features/setup/streams/reputation.ts'
import type { Zone } from '#test/support/dns-server.ts'
import { createTestUser } from '#test/support/users.ts'
import type { Settings } from '../kill/service.ts'

/** A tenant with its credentials. */
export interface Tenant {
  readonly name: string
  readonly key: string
  readonly accountId: number
  /** A verified domain that accepts mail. */
  readonly domain: string
  readonly domainId: string
  /** A domain that was never verified. */
  readonly sandboxDomain: string
  /** Users who may sign in with the test password. */
  readonly users: readonly string[]
}

export interface World {
  readonly honest: readonly Tenant[]
  readonly attackers: readonly Tenant[]
}

export const ATTACKER_COUNT = 5
/** Receives the mail of honest tenants. */
export const HONEST_RECEIVER = 'honest-receiver.test'
export const HONEST_RECEIVER_ADDRESS = '127.0.0.2'
/** Receives the mail of attackers without delay. */
export const ATTACKER_RECEIVER = 'attacker-receiver.test'
export const ATTACKER_RECEIVER_ADDRESS = '127.0.0.3'
export const TARPIT_COUNT = 320
export const HOSTNAME = 'mail.fair.test'
/** Each user signs in from a different network, so that the sample exceeds the limit of one user. */
const USER_COUNT = 12

export const tarpitDomain = (index: number): string => `tarpit${index}.test`
export const tarpitAddress = (index: number): string => `127.50.${index >> 7}.${(index & 127) + 1}`

/** Builds the DNS zone of all recipients. `gmail.com`, which ignores dots, resolves to the honest receiver. */
export function buildZone(): Zone {
  const mx = (exchange: string) => ({ MX: [{ preference: 10, exchange }] })
  return {
    [HONEST_RECEIVER]: mx('mx.honest-receiver.test'),
    'mx.honest-receiver.test': { A: [HONEST_RECEIVER_ADDRESS] },
    [ATTACKER_RECEIVER]: mx('mx.attacker-receiver.test'),
    'mx.attacker-receiver.test': { A: [ATTACKER_RECEIVER_ADDRESS] },
    'gmail.com': mx('mx.honest-receiver.test'),
    ...Object.fromEntries(
      Array.from({ length: TARPIT_COUNT }, (_, index) => [
        [tarpitDomain(index), mx(`mx.${tarpitDomain(index)}`)] as const,
        [`mx.${tarpitDomain(index)}`, { A: [tarpitAddress(index)] }] as const,
      ]).flat(),
    ),
  }
}

/** Fills the data directory of `settings`. */
export async function createWorld(settings: Settings, honestCount: number, attackerPlan: Plan): Promise<World> {
  const opened = openApp(loadConfig(settings).config)
  const { app } = opened
  try {
    const make = async (name: string, plan: Plan, userCount: number): Promise<Tenant> => {
      const account = await createAccount(app, { name, email: `owner@${name}.test`, plan })
      const actor: Actor = toOperatorActor(account)
      const domain = `${name}.test`
      const sandboxDomain = `${name}-sandbox.test`
      const { domain: created } = await createDomain(app, actor, domain)
      await createDomain(app, actor, sandboxDomain)
      // The state that `verify` would store if the zone were published.
      await app.commit.write(
        (tx) =>
          void tx.db.run(
            'UPDATE domains SET verified_at = 1, inbound_enabled = 1, mx_verified = 1, next_check_at = 4000000000000 WHERE id = ?',
            [created.id],
          ),
      )
      // Mail of the day so far: with the few messages of a run, complaints can pause the account.
      await app.commit.write((tx) => count(tx, account.id, toAccountMetric('delivered'), app.clock.now(), 195))
      const { key } = await createApiKey(app, actor, { name: 'fairness' })
      const users = Array.from({ length: userCount }, (_, index) => `user${index}@${domain}`)
      for (const user of users) await createTestUser(app, actor, user, 'admin')
      const uuid = app.db
        .query<{ uuid: string }, [number]>('SELECT lower(hex(uuid)) AS uuid FROM domains WHERE id = ?')
        .get(created.id)?.uuid
      return { name, key, accountId: account.id, domain, domainId: addDashes(uuid ?? ''), sandboxDomain, users }
    }
    const honest: Tenant[] = []
    for (let index = 0; index < honestCount; index++)
      honest.push(await make(index === 0 ? 'honest' : `honest${index}`, 'pro', index === 0 ? USER_COUNT : 0))
    const attackers: Tenant[] = []
    for (let index = 0; index < ATTACKER_COUNT; index++) attackers.push(await make(`attacker${index}`, attackerPlan, 0))
    return { honest, attackers }
  } finally {
    await opened.close()
  }
}

const addDashes = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

/** Builds the settings of the service in `folder`; `dnsAddress` and ports belong to the fixtures. */
export const buildSettings = (
  folder: string,
  ports: { readonly http: number; readonly inbound: number; readonly mx: number },
  dnsAddress: string,
): Settings => ({
  PATH: process.env['PATH'] ?? '',
  TASSIS_DATA_DIR: join(folder, 'data'),
  TASSIS_HTTP_ADDR: `127.0.0.1:${ports.http}`,
  TASSIS_INBOUND_ADDR: `127.0.0.1:${ports.inbound}`,
  TASSIS_SMTP_PORT: String(ports.mx),
  TASSIS_HOSTNAME: HOSTNAME,
  TASSIS_DNS_SERVERS: dnsAddress,
  TASSIS_ALLOW_PRIVATE_NETWORKS: 'loopback',
  // Remote clients with many addresses connect through this proxy.
  TASSIS_TRUSTED_PROXIES: '127.0.0.1',
  TASSIS_LOG_LEVEL: 'warn',
  TASSIS_MIN_FREE_DISK: '64MiB',
})
