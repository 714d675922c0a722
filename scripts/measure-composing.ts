/**
 * @module Prints the CPU time (user and system) of composing and signing one email of 10 KiB, step by step, as a
 * delivery Worker does it. The best of several rounds counts, because other load only adds.
 *
 *     bun scripts/measure-composing.ts [ROUNDS]
 */
import { createPrivateKey } from 'node:crypto'
import { RsaSigners } from '#platform/rsa-signer.ts'
import { RelaxedBodyHash } from '#protocols/dkim/body-hash.ts'
import { generateDkimKey, generateEd25519DkimKey } from '#protocols/dkim/keys.ts'
import { createDkimSigner, createSignatureFields, type Signature } from '#protocols/dkim/sign.ts'
import { type ComposeInput, composeMessage, listBodies, readFields } from '#protocols/mime/compose.ts'
import { encodeText } from '#protocols/mime/encode.ts'
import { composeByMailComposer } from '#protocols/mime/mail-composer.ts'
import { createMailPatterns, SENDER_DOMAIN } from '../src/bench/mails.ts'

const ROUNDS = Number(process.argv[2] ?? 10)
const MESSAGES_PER_ROUND = 500

function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

const emails = createMailPatterns().map((mail) => {
  const text = runSteps(encodeText(Buffer.from(mail.text_body)))
  const html = runSteps(encodeText(Buffer.from(mail.html_body)))
  const input: ComposeInput = {
    from: mail.from,
    to: [mail.to],
    cc: [],
    subject: mail.subject,
    date: new Date(0),
    messageId: `<01890a5d-ac96-774b-bcce-b302099a8057@${SENDER_DOMAIN}>`,
    headers: [
      ['List-Unsubscribe', `<https://mail.bench.test/u/${'a'.repeat(120)}>, <mailto:u@send.${SENDER_DOMAIN}>`],
      ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'],
    ],
    attachments: [],
    boundarySeed: 'seed',
    text,
    html,
  }
  return { mail, input, message: composeMessage(input) }
})

const toSignature = (signer: Signature['signer']): Signature => ({ domain: SENDER_DOMAIN, selector: 's', signer })
const rsaKey = createPrivateKey((await generateDkimKey()).privateKeyPem)
const signers = new RsaSigners()
const fastRsa = signers.create(rsaKey)
const rsa = toSignature({ algorithm: 'rsa-sha256', sign: (data) => fastRsa.sign(data) })
const ed25519 = toSignature(createDkimSigner(createPrivateKey(generateEd25519DkimKey().privateKeyPem)))

type Email = (typeof emails)[number]
const STEPS: Readonly<Record<string, (email: Email) => void>> = {
  'encode text and HTML': ({ mail }) => {
    runSteps(encodeText(Buffer.from(mail.text_body)))
    runSteps(encodeText(Buffer.from(mail.html_body)))
  },
  'compose header and body': ({ input }) => void composeMessage(input),
  '  the same by MailComposer': ({ input }) =>
    void composeByMailComposer(readFields(input), listBodies(input), { attachments: [] }),
  'hash the body': ({ message }) => {
    const hash = new RelaxedBodyHash()
    for (const piece of message.body) hash.update(piece)
    hash.digest()
  },
  'sign by RSA': ({ message }) => void createSignatureFields(message.header, 'hash', [rsa]),
  '  the same by node:crypto': ({ message }) =>
    void createSignatureFields(message.header, 'hash', [toSignature(createDkimSigner(rsaKey))]),
  '  the same, and by Ed25519': ({ message }) => void createSignatureFields(message.header, 'hash', [rsa, ed25519]),
}

function measure(run: (email: Email) => void): number {
  const before = process.cpuUsage()
  for (let i = 0; i < MESSAGES_PER_ROUND; i++) run(emails[i % emails.length] as Email)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / MESSAGES_PER_ROUND
}

const best = new Map<string, number>()
for (let round = 0; round < ROUNDS; round++)
  for (const [name, run] of Object.entries(STEPS)) best.set(name, Math.min(best.get(name) ?? Infinity, measure(run)))
for (const [name, micros] of best) console.log(`${name.padEnd(28)} ${(micros / 1000).toFixed(3)} ms`)
console.log(`RSA by ${signers.choice?.implementation}: ${signers.choice?.reason}`)
