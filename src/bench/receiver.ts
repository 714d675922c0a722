/**
 * @module The bench's receiving site, in a process of its own: the sink and the DNS that leads to it. The service finds it as it finds any domain:
 * MX, then A, then the port.
 */
import type { Answer } from 'dns-packet'
import { startBenchDns } from './dns.ts'
import { RECEIVER_DOMAIN } from './mails.ts'
import { startBenchSink } from './sink.ts'

const MAIL_HOST = 'mx.bench.test'

export interface BenchReceiver {
  readonly smtpPort: number
  readonly dnsPort: number
  /** Messages taken so far. */
  count(): number
}

export async function startBenchReceiver(): Promise<BenchReceiver> {
  const sink = await startBenchSink()
  return { smtpPort: sink.port, dnsPort: await startBenchDns(answerReceiverDns), count: sink.count }
}

/** Where mail to the receiver's domain goes, for `startBenchDns`. */
export function answerReceiverDns(name: string, type: string): Answer[] {
  if (name === RECEIVER_DOMAIN && type === 'MX')
    return [{ name, type, ttl: 300, data: { preference: 10, exchange: MAIL_HOST } }]
  if (name === MAIL_HOST && type === 'A') return [{ name, type, ttl: 300, data: '127.0.0.1' }]
  return []
}
