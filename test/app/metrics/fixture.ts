/** @module A whole service with `/metrics`, receiving servers and a DNS zone, on free loopback ports. For tests. */

import { join } from 'node:path'
import { type Service, startService } from '#app/service.ts'
import { loadConfig } from '#app/settings.ts'
import { createLog } from '#platform/log/log.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { type HttpsReceiver, startHttpsReceiver } from '#test/support/https-receiver.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { createDataFolder, type Settings, setUpAccount } from '../process.ts'

const TLS_FILES = join(import.meta.dir, '../../support/tls')

/** The samples of a scrape: by name with labels, as in the text, `tassis_queue_recipients{provider="gmail"}`. */
export type Samples = ReadonlyMap<string, number>

export interface MeteredService extends AsyncDisposable {
  readonly service: Service
  readonly metricsUrl: string
  /** For webhooks. */
  readonly hooks: HttpsReceiver
  /** Requests a path of the API with the key of the account. */
  post(path: string, body: unknown): Promise<Response>
  /** The text of a new scrape. */
  text(): Promise<string>
  scrape(): Promise<Samples>
}

/** Addresses of receiver.test and of Gmail's MX hosts are accepted, except those that begin with `gone` and `later`. */
export async function startMeteredService(settings: Settings = {}): Promise<MeteredService> {
  const data = createDataFolder()
  const receiver = await startScriptedSmtp({
    rcpt: (line) =>
      /<gone/i.test(line) ? '550 5.1.1 No such user' : /<later/i.test(line) ? '452 4.2.2 Mailbox full' : '250 2.1.5 Ok',
  })
  const hooks = await startHttpsReceiver({ names: ['hooks.test'] })
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.receiver.test' }] },
    'mx.receiver.test': { A: ['127.0.0.1'] },
    'gmail.com': { MX: [{ preference: 5, exchange: 'gmail-smtp-in.l.google.com' }] },
    'gmail-smtp-in.l.google.com': { A: ['127.0.0.1'] },
    'hooks.test': { A: ['127.0.0.1'] },
  })
  const all = {
    ...data.settings,
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(receiver.port),
    TASSIS_METRICS_ADDR: '127.0.0.1:0',
    TASSIS_INBOUND_ADDR: '127.0.0.1:0',
    TASSIS_WORKERS: '1',
    TASSIS_WARM_UP: 'off',
    TASSIS_TLS_CERT_FILE: join(TLS_FILES, 'mx.example.test.cert.pem'),
    TASSIS_TLS_KEY_FILE: join(TLS_FILES, 'mx.example.test.key.pem'),
    TASSIS_EXTRA_CA_FILE: hooks.caFile,
    ...settings,
  }
  const { key } = await setUpAccount(all, { verified: true })
  const { config } = loadConfig(all)
  const service = await startService(config, { log: createLog('silent') })
  const metricsUrl = `http://127.0.0.1:${service.metrics?.port}/metrics`
  const text = async () => (await fetch(metricsUrl)).text()
  return {
    service,
    metricsUrl,
    hooks,
    text,
    scrape: async () => parseSamples(await text()),
    post: (path, body) =>
      fetch(`${service.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      await service.stop()
      await hooks[Symbol.asyncDispose]()
      await receiver[Symbol.asyncDispose]()
      await dns[Symbol.asyncDispose]()
      data[Symbol.dispose]()
    },
  }
}

export const parseSamples = (text: string): Samples =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => {
        const end = line.lastIndexOf(' ')
        return [line.slice(0, end), Number(line.slice(end + 1))] as const
      }),
  )
