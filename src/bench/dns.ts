/** @module The DNS server of the benchmark: answers with given records over UDP on 127.0.0.1. */
import { createSocket } from 'node:dgram'
import { type Answer, AUTHORITATIVE_ANSWER, decode, encode } from 'dns-packet'

/** Starts the server on a free port and returns the port. */
export async function startBenchDns(answersTo: (name: string, type: string) => Answer[]): Promise<number> {
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
  return dns.address().port
}
