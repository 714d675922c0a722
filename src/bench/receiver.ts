/**
 * @module The receiving site of the benchmark, in its own process: the SMTP sink and its DNS server. The service finds
 * it like any domain: MX, then A, then the port.
 */
import type { Answer } from 'dns-packet'
import { startBenchDns } from './dns.ts'
import { RECEIVER_DOMAIN } from './mails.ts'
import { startBenchSink } from './sink.ts'

const MAIL_HOST = 'mx.bench.test'

/** A subdomain has a number: `createRequestBuilder`. */
const IS_RECEIVER = new RegExp(`^(?:d\\d+\\.)?${RegExp.escape(RECEIVER_DOMAIN)}$`)

export interface BenchReceiver {
  readonly smtpPort: number
  readonly dnsPort: number
  /** Returns the number of messages accepted so far. */
  count(): number
}

export async function startBenchReceiver(): Promise<BenchReceiver> {
  const sink = await startBenchSink()
  return { smtpPort: sink.port, dnsPort: await startBenchDns(answerReceiverDns), count: sink.count }
}

/** Answers for the receiver's domain and its subdomains, for `startBenchDns`. */
export function answerReceiverDns(name: string, type: string): Answer[] {
  if (IS_RECEIVER.test(name) && type === 'MX')
    return [{ name, type, ttl: 300, data: { preference: 10, exchange: MAIL_HOST } }]
  if (name === MAIL_HOST && type === 'A') return [{ name, type, ttl: 300, data: '127.0.0.1' }]
  return []
}
