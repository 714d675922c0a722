/**
 * @module The promise at the head of replies.toml: words about one recipient, or about the domain of one sender, suspend
 * no host, whatever rule they fit besides.
 */
import { expect, test } from 'bun:test'
import { findPairAction } from '#features/sending/delivery/attempt/attempt-results.ts'
import providers from '#features/sending/delivery/providers/providers.toml'
import { GROUPS, RULE_TABLE } from '#features/sending/delivery/verdict/reply-rules.ts'
import { makeReply } from '#protocols/smtp/replies.ts'

/** The first words that a pattern matches. */
export const exampleOf = (pattern: string): string =>
  pattern
    .replace(/^\*/, '')
    .replace(/\(\?<?[!=][^()]*\)/g, '')
    .replace(/\((?:\?:)?([^()|]*)(?:\|[^()]*)?\)(\?|\{0,\d+\})?/g, (_, first: string, optional?: string) =>
      optional === undefined ? first : '',
    )
    .replace(/\((?:\?:)?([^()|]*)(?:\|[^()]*)?\)(\?|\{0,\d+\})?/g, (_, first: string, optional?: string) =>
      optional === undefined ? first : '',
    )
    .replace(/\[(.)[^\]]*\]/g, '$1')
    .replace(/\\S(?:\{[\d,]+\})?/g, 'x')
    .replace(/\\d(?:\{[\d,]+\})?/g, '1')
    .replace(/\\b/g, '')
    .replace(/\S\?/g, '')
    .replace(/\\(.)/g, '$1')
    .replaceAll('{mailbox}', 'mailbox')

/** Of all rules, their own words. */
const EXAMPLES = [
  ...new Set(GROUPS.flatMap((group) => RULE_TABLE[group]).flatMap(({ patterns }) => (patterns ?? []).map(exampleOf))),
]

const SUBJECTS = [
  'The recipient',
  'User bob@receiver.test',
  'Sender <ada@sender.test>',
  "The sender's domain sender.test",
  'MailFrom domain',
  'Le destinataire',
  'Der Empfänger',
]

const SENTENCES = [
  'The account or domain may not exist, they may be blacklisted, or missing the proper dns entries.',
  'Sender blacklisted by recipient',
  'User bob (bob@receiver.test) not listed in Domino Directory',
  'Recipient not listed on this server',
  'Service refuse. Veuillez essayer plus tard. service refused, please try later. LPN007_510',
  'Your address ada@sender.test is blacklisted on this server',
  'The recipient has blocked all mail from your server [192.0.2.1]',
  'Domain sender.test is listed at dbl.spamhaus.org',
  'Your From address is on the block list of this user',
  'Mailbox bob is blocked from receiving mail of your network',
]

const CODES = ['550 ', '550 5.7.1 ', '550 5.1.1 ', '450 4.7.1 ', '421 ']

test('words about one recipient or one sender suspend no host', () => {
  const sentences = [...SENTENCES, ...SUBJECTS.flatMap((subject) => EXAMPLES.map((words) => `${subject}: ${words}`))]
  expect(EXAMPLES.length).toBeGreaterThan(400)
  const suspending: string[] = []
  for (const sentence of sentences)
    for (const code of CODES)
      for (const phase of ['mail', 'body'] as const)
        for (const provider of [undefined, 'la-poste']) {
          const reply = makeReply(Number(code.slice(0, 3)), [`${code.slice(4)}${sentence}`])
          const action = findPairAction({ kind: 'refused', reply, phase }, provider, false)
          if (action?.kind === 'suspend_provider') suspending.push(`${provider} ${phase} ${reply.text}: ${action.rule}`)
        }
  expect(suspending).toEqual([])
}, 120_000)

test('from RCPT on, words that are not of a named provider do nothing to it', () => {
  const touching: string[] = []
  for (const words of EXAMPLES)
    for (const code of CODES)
      for (const phase of ['rcpt', 'body'] as const)
        for (const provider of ['gmail', 'microsoft', 'mimecast']) {
          const reply = makeReply(Number(code.slice(0, 3)), [`${code.slice(4)}${words}`])
          const action = findPairAction({ kind: 'refused', reply, phase }, provider, false)
          if (action && !action.rule.startsWith(`${provider}-`))
            touching.push(`${provider} ${reply.text}: ${action.rule} ${action.kind}`)
        }
  expect(touching).toEqual([])
  expect(Object.keys(providers)).toContain('mimecast')
}, 120_000)
