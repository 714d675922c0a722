/** @module Receiving: signed messages are submitted over SMTP, parsed, authenticated and stored for a route. */
import { createPrivateKey } from 'node:crypto'
import { CommandError } from '#app/cli/options.ts'
import { type Exchange, runLoad } from '#bench/load.ts'
import { SENDER_DOMAIN } from '#bench/mails.ts'
import type { Benchmark, Created, Values } from '#bench/measure.ts'
import { observe, readUsage, startService, waitUntil } from '#bench/processes.ts'
import { type DnsRecords, startReceiver } from '#bench/receiver.ts'
import { CONNECTIONS, loadFigures, toValues } from '#bench/sending.ts'
import type { Account } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { createRoute } from '#features/webhooks/inbound-routes/inbound-routes.ts'
import { KiB } from '#platform/units.ts'
import { formatDkimRecord, generateDkimKey } from '#protocols/dkim/keys.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { createMail, createMessageBuilder, openSmtp } from './smtp-load.ts'

const CLIENT_DOMAIN = 'client.bench.test'
const SELECTOR = 'bench'
/** Larger than the messages that are parsed in one piece. */
const LARGE_BYTES = 512 * KiB
const BASE64_LINE = 'QnJpbmcgbWUgYSBodW5kcmVkIG9mIHRoZW0g'.repeat(2)

/** Settings of a service that accepts as much as comes. */
export const INBOUND_SETTINGS: Readonly<Record<string, string>> = {
  TASSIS_INBOUND_MESSAGES_PER_MINUTE: '1000000',
}

/** @param count number of messages */
export const createReceivingBenchmark = (count: number): Benchmark => ({
  name: 'receiving',
  description: `${count} messages of some 11 KiB (text, HTML, attachment; DKIM, SPF and DMARC pass) submitted over ${CONNECTIONS} connections,\ndurable before the 250.`,
  figures: [
    ...loadFigures('taken', 'accepted/s (250)'),
    ['processed_per_second', 'processed/s, end to end', 0],
    ['processed_cpu_ms', '  CPU ms per message, accepted and processed', 3],
    ['peak_rss_mib', 'peak RSS MiB', 0],
  ],
  async prepare({ create, onCopy }, resources) {
    const { messages, records } = await createSignedMessages(count)
    const { dnsPort } = resources.use(await startReceiver({ records }))
    const created = await create('receiving', routeSupportMail)
    const run = () => onCopy(created.dataDir, (dataDir) => runReceiving(dnsPort, messages, { ...created, dataDir }))
    return [{ title: 'runs', run }]
  },
})

/** Creates a route for the messages of `createSignedMessages`. @param domainId of SENDER_DOMAIN */
export async function routeSupportMail(app: App, account: Account, domainId: string): Promise<void> {
  await createRoute(app, toOperatorActor(account), {
    domainId,
    pattern: 'support',
    matchType: 'exact',
    priority: 0,
    webhookUrl: null,
    isActive: true,
  })
}

/**
 * Creates signed messages of customers, and the DNS records of their sender.
 * @param largeEvery every n-th message has an attachment of LARGE_BYTES
 */
export async function createSignedMessages(
  count: number,
  largeEvery = Infinity,
): Promise<{ readonly messages: readonly Exchange[]; readonly records: DnsRecords }> {
  const dkimKey = await generateDkimKey()
  const signer = { domain: CLIENT_DOMAIN, selector: SELECTOR, privateKey: createPrivateKey(dkimKey.privateKeyPem) }
  const build = createMessageBuilder(({ subject }) => [
    `From: Customer <customer@${CLIENT_DOMAIN}>`,
    `To: Support <support@${SENDER_DOMAIN}>`,
    `Subject: ${subject}`,
    'Date: Sat, 21 Nov 2026 10:00:00 +0000',
  ])
  const large = `${BASE64_LINE}\r\n`.repeat(Math.ceil(LARGE_BYTES / 54)).trimEnd()
  const messages = Array.from({ length: count }, (_, number) => {
    const unsigned = build(number, number % largeEvery === largeEvery - 1 ? large : BASE64_LINE)
    const message = signMessage(Buffer.from(unsigned, 'latin1'), signer)
    return createMail(`customer@${CLIENT_DOMAIN}`, `support@${SENDER_DOMAIN}`, message)
  })
  const records = {
    [CLIENT_DOMAIN]: { TXT: 'v=spf1 ip4:127.0.0.0/8 -all' },
    [`${SELECTOR}._domainkey.${CLIENT_DOMAIN}`]: { TXT: formatDkimRecord(dkimKey.publicKey) },
    [`_dmarc.${CLIENT_DOMAIN}`]: { TXT: 'v=DMARC1; p=reject' },
  }
  return { messages, records }
}

interface InboundList {
  readonly pagination: { readonly total: number }
  readonly data: readonly { readonly authentication: Readonly<Record<string, string>> }[]
}

/** Measures one run. CPU time is that of the service only: user and system, all threads. */
async function runReceiving(
  dnsPort: number,
  messages: readonly Exchange[],
  { dataDir, key }: Pick<Created, 'dataDir' | 'key'>,
): Promise<Values> {
  const count = messages.length
  const smtpPort = await findFreePort()
  await using service = await startService(dataDir, {
    ...INBOUND_SETTINGS,
    TASSIS_INBOUND_ADDR: `127.0.0.1:${smtpPort}`,
    TASSIS_DNS_SERVERS: `127.0.0.1:${dnsPort}`,
  })
  const readList = async (): Promise<InboundList> => {
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(`http://127.0.0.1:${service.port}/v1/inbound?per_page=1`, { headers })
    return (await answer.json()) as InboundList
  }
  const { value, seconds, cpuMs } = await observe(service.pid, async () => {
    const target = { open: openSmtp(smtpPort), connections: CONNECTIONS, expected: '250' }
    const taken = await runLoad(target, messages)
    const isStored = async () => (await readList()).pagination.total === count
    await waitUntil(isStored, () => `Not all of ${count} messages were stored.`, 20)
    return taken
  })
  const { spf, dkim, dmarc } = (await readList()).data[0]?.authentication ?? {}
  if (spf !== 'pass' || dkim !== 'pass' || dmarc !== 'pass')
    throw new CommandError(`A message of the benchmark has spf=${spf} dkim=${dkim} dmarc=${dmarc} instead of pass.`)
  return {
    ...toValues('taken', value),
    processed_per_second: count / seconds,
    processed_cpu_ms: cpuMs / count,
    peak_rss_mib: readUsage(service.pid).peakRssMiB,
  }
}
