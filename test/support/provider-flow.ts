/** @module A delivering service with a provider "big" of its own, at one or two hosts, for tests of providers. */
import { createTestApp, type TestApp } from './app.ts'
import { startDnsServer } from './dns-server.ts'
import { createFolder } from './folder.ts'
import { type MailFlow, type MailFlowOptions, startMailFlow } from './mail-flow.ts'
import { ManualClock } from './manual-clock.ts'

/** Three domains at two sites of the provider. */
export const BIG_ZONE = {
  'one.test': { MX: [{ preference: 1, exchange: 'mx1.big.test' }] },
  'two.test': { MX: [{ preference: 1, exchange: 'mx2.big.test' }] },
  'three.test': { MX: [{ preference: 1, exchange: 'mx1.big.test' }] },
  'mx1.big.test': { A: ['127.0.0.1'] },
  'mx2.big.test': { A: ['127.0.0.1'] },
}

export interface ProviderFlow extends AsyncDisposable {
  readonly flow: MailFlow
  readonly clock: ManualClock
}

const createProviders = (limits: string) => createFolder({ 'providers.toml': `[big]\nmx = ["big.test"]\n${limits}\n` })

/** Starts a service whose provider "big" has these limits. */
export async function startProviderFlow(
  limits: string,
  options: MailFlowOptions & { readonly clock?: ManualClock } = {},
): Promise<ProviderFlow> {
  const folder = createProviders(limits)
  const clock = options.clock ?? new ManualClock(Date.UTC(2026, 2, 15, 12, 30))
  const settings = { TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'), ...options.settings }
  const flow = await startMailFlow({ zone: BIG_ZONE, ...options, clock, settings })
  return {
    flow,
    clock,
    async [Symbol.asyncDispose]() {
      await flow[Symbol.asyncDispose]()
      folder[Symbol.dispose]()
    },
  }
}

/** Starts the next process on the data of a service that ended. */
export async function restartProviderFlow(
  limits: string,
  {
    smtpPort,
    settings,
    ...options
  }: Pick<MailFlowOptions, 'smtpPort' | 'settings'> & Pick<TestApp, 'dataDir'> & { readonly clock: ManualClock },
): Promise<{ readonly service: TestApp } & AsyncDisposable> {
  const dns = await startDnsServer(BIG_ZONE)
  const folder = createProviders(limits)
  const service = await createTestApp({
    ...options,
    delivers: true,
    settings: {
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(smtpPort),
      TASSIS_PROVIDERS_FILE: folder.pathOf('providers.toml'),
      ...settings,
    },
  })
  return {
    service,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await dns.close()
      folder[Symbol.dispose]()
    },
  }
}
