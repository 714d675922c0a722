/**
 * @module Submits one hostile message in a process of its own. Arguments: index of the message, port of the listener.
 * Exits with 1 when it gets no 250.
 */
import { connectSmtp } from '#test/support/smtp-client.ts'
import { RECIPIENT } from './fixture.ts'
import { MAX_BYTES, messages } from './messages.ts'

const [, , index = '', port = ''] = process.argv
const message = messages[Number(index)]
if (!message) throw new Error('there is no such message')

await using client = await connectSmtp(Number(port))
const replies = [await client.reply(), await client.say('EHLO submitter.test')]
replies.push(await client.say(`MAIL FROM:<${message.mailFrom ?? 'a@sender.test'}>`))
replies.push(await client.say(`RCPT TO:<${RECIPIENT}>`), await client.say('DATA'))
let sentBytes = 0
for (const piece of message.pieces()) {
  const octets = typeof piece === 'string' ? Buffer.from(piece) : piece
  const sent = octets.subarray(0, MAX_BYTES - sentBytes)
  sentBytes += sent.length
  await client.write(sent)
}
await client.write('\r\n.\r\n')
const last = await client.reply()
if (!last.startsWith('250')) {
  console.error(`${message.name}: ${[...replies, last].at(-1)}`)
  process.exit(1)
}
