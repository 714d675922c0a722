/** @module A service whose resolver is BIND or Knot with the zone `zone.test`, and what tests do with it. */
import type { DnsApi, DnsProviderEntry } from '#features/setup/dns-publish/dns-api.ts'
import { RFC2136 } from '#features/setup/dns-publish/rfc2136.ts'
import { createTestApi, type TestApi } from '#test/support/api.ts'
import { type DaemonName, type DaemonOptions, type DnsDaemon, SECRET, startDaemon } from '#test/support/dns-daemons.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

export interface Published {
  readonly zone: string
  readonly summary: string
  readonly is_kept: boolean
  readonly records: readonly (Readonly<Record<'key' | 'type' | 'name' | 'action' | 'reason' | 'state', string>> & {
    readonly before: readonly string[]
    readonly after: readonly string[]
    readonly error: string | null
  })[]
}

export interface PublishTest extends AsyncDisposable {
  readonly service: TestApi
  readonly daemon: DnsDaemon
  readonly id: string
  readonly credentials: Readonly<Record<string, string>>
  post(body: object): Promise<Published>
  /** `key: action state`, in order. */
  outcome(published: Published): string[]
  wire(): Promise<Readonly<Record<string, unknown>>>
}

export async function startPublishTest(
  name: DaemonName,
  options: Partial<DaemonOptions> = {},
  settings: Readonly<Record<string, string>> = {},
  domain = 'zone.test',
): Promise<PublishTest> {
  const daemon = await startDaemon(name, { zone: 'zone.test', ...options })
  const service = await createTestApi({
    settings: { TASSIS_DNS_SERVERS: daemon.address, TASSIS_OUTBOUND_IPS: '192.0.2.25', ...settings },
  })
  const { api } = service
  const made = (await api('POST', '/v1/domains', { domain })).body as { data: { id: string } }
  const { id } = made.data
  return {
    service,
    daemon,
    id,
    credentials: { server: daemon.address, key_name: 'full', secret: SECRET },
    async post(body) {
      const { status, body: answer } = await api('POST', `/v1/domains/${id}/publish`, body)
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(answer)}`)
      return (answer as { data: Published }).data
    },
    outcome: ({ records }) => records.map(({ key, action, state }) => `${key}: ${action} ${state}`),
    wire: async () => ((await api('GET', `/v1/domains/${id}`)).body as { data: Record<string, unknown> }).data,
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await daemon[Symbol.asyncDispose]()
    },
  }
}

/** The zone as anybody with the key may change it. */
export const connectTo = (
  { port }: Pick<DnsDaemon, 'port'>,
  more: Record<string, string> = {},
  clock = new ManualClock(Date.now()),
) =>
  RFC2136.create(
    {
      clock,
      fetch: undefined as never,
      signal: new AbortController().signal,
      resolveServer: async (host, at) => [{ host, port: at }],
    },
    { server: `127.0.0.1:${port}`, key_name: 'full', secret: SECRET, ...more },
  )

/** RFC 2136, but for some functions. */
export const changeRfc2136 = (change: (api: DnsApi) => Partial<Pick<DnsApi, 'read' | 'write'>>): DnsProviderEntry => ({
  ...RFC2136,
  create(deps, fields) {
    const api = RFC2136.create(deps, fields)
    const { read = api.read, write = api.write } = change(api)
    return { findZone: api.findZone.bind(api), read: read.bind(api), write: write.bind(api) }
  },
})
