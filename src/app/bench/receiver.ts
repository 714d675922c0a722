/**
 * @module The bench's receiving site, in a process of its own: the sink and the DNS that leads to it. The service finds it as it finds any domain:
 * MX, then A, then the port.
 */
import { createSocket } from 'node:dgram'
import { type Answer, AUTHORITATIVE_ANSWER, decode, encode } from 'dns-packet'
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
  const dns = createSocket('udp4')
  dns.on('error', () => undefined)
  dns.on('message', (message, from) => {
    const query = decode(message)
    const question = query.questions?.[0]
    if (!question) return
    const reply = encode({
      type: 'response',
      ...(query.id !== undefined && { id: query.id }),
      flags: AUTHORITATIVE_ANSWER,
      questions: [question],
      answers: answersTo(question.name.toLowerCase(), question.type),
    })
    dns.send(reply, from.port, from.address)
  })
  await new Promise<void>((resolve) => dns.bind(0, '127.0.0.1', resolve))
  return { smtpPort: sink.port, dnsPort: dns.address().port, count: sink.count }
}

function answersTo(name: string, type: string): Answer[] {
  if (name === RECEIVER_DOMAIN && type === 'MX')
    return [{ name, type, ttl: 300, data: { preference: 10, exchange: MAIL_HOST } }]
  if (name === MAIL_HOST && type === 'A') return [{ name, type, ttl: 300, data: '127.0.0.1' }]
  return []
}
