/**
 * @module Names that a client has encoded (RFC 2047) before it put them into JSON: they are shown and sent as the name
 * that they mean, by each interface.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  createMessage,
  idOf,
  type SubmissionFixture,
  sendMessage,
  startSubmissionFixture,
} from '#test/features/drop-in/submission/fixture.ts'
import { at } from '#test/support/api.ts'
import { EMAIL, VERIFIED } from '#test/support/email-api.ts'

let service: SubmissionFixture
beforeAll(async () => {
  service = await startSubmissionFixture()
})
afterAll(() => service[Symbol.asyncDispose]())

const JURGEN = '=?utf-8?q?J=C3=BCrgen?='
const LONG =
  '=?utf-8?b?5qCq5byP5Lya56S+44K144Oz44OX44Or5ZWG5LqL44Kr44K544K/44Oe44O844K1?=\n =?utf-8?b?44Od44O844OI44K744Oz44K/44O85p2x5Lqs?='
const LONG_NAME = '株式会社サンプル商事カスタマーサポートセンター東京'

/** Names by field, as the email of an id has them. */
async function readNames(id: unknown): Promise<unknown> {
  const email = await service.detail(String(id))
  const header = (await service.readSource(String(id))).split('\r\n\r\n')[0] ?? ''
  return {
    from: email['from_address'],
    replyTo: email['reply_to'],
    isDecodedOnce: !/=3D=3F|PT9/i.test(header),
    shown: Array.from(header.matchAll(/^(?:From|To|Cc|Reply-To): (?:.*(?:\r\n[ \t])?)*/gm), ([field]) =>
      field.replaceAll(/=\?utf-8\?.*?\?=/gi, '…').replaceAll(/\s+/g, ' '),
    ),
  }
}

const EXPECTED = {
  from: `"Jürgen" <ada@${VERIFIED}>`,
  replyTo: `"${LONG_NAME}" <x@receiver.test>`,
  isDecodedOnce: true,
  shown: [
    `From: … <ada@${VERIFIED}>`,
    'To: … <bob@receiver.test>',
    'Cc: … <carl@receiver.test>',
    expect.stringMatching(/^Reply-To: (?:… )+<x@receiver\.test>$/),
  ],
}

// Proves: send-32
test.each([
  [
    '/v1',
    async () => {
      const to = [`${JURGEN} <bob@receiver.test>`]
      const cc = [`${JURGEN} <carl@receiver.test>`]
      const from = `${JURGEN} <ada@${VERIFIED}>`
      const reply_to = `${LONG} <x@receiver.test>`
      return (await service.accepted({ from, to, cc, bcc: [`${JURGEN} <dora@receiver.test>`], reply_to })).id
    },
  ],
  [
    'Resend',
    async () => {
      const { body } = await service.api('POST', '/resend/emails', {
        from: `${JURGEN} <ada@${VERIFIED}>`,
        to: `${JURGEN} <bob@receiver.test>`,
        cc: `${JURGEN} <carl@receiver.test>`,
        reply_to: `${LONG} <x@receiver.test>`,
        subject: 'Hello',
        text: 'Hello.',
      })
      return at(body, 'id')
    },
  ],
  [
    'Postmark',
    async () => {
      const response = await fetch(`${service.url}/postmark/email`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Postmark-Server-Token': service.key },
        body: JSON.stringify({
          From: `${JURGEN} <ada@${VERIFIED}>`,
          To: `${JURGEN} <bob@receiver.test>`,
          Cc: `${JURGEN} <carl@receiver.test>`,
          ReplyTo: `${LONG} <x@receiver.test>`,
          Subject: 'Hello',
          TextBody: 'Hello.',
        }),
      })
      return at(await response.json(), 'MessageID')
    },
  ],
  [
    'SMTP',
    async () => {
      await using client = await service.connectLoggedIn()
      const message = createMessage([
        `Cc: "${JURGEN}" <carl@receiver.test>`,
        `Reply-To: ${LONG.replace('\n', '\r\n')} <x@receiver.test>`,
      ])
        .replace('From: ', `From: ${JURGEN} <`)
        .replace(`ada@${VERIFIED}`, `ada@${VERIFIED}>`)
        .replace('To: bob@receiver.test', `To: ${JURGEN} <bob@receiver.test>`)
      return idOf(await sendMessage(client, message, { to: ['bob@receiver.test', 'carl@receiver.test'] }))
    },
  ],
])('%s decodes the names of all addresses', async (_, send) => {
  expect(await readNames(await send())).toEqual(EXPECTED)
})

describe('a name', () => {
  const readName = async (name: string): Promise<unknown> => {
    const { id } = await service.accepted({ ...EMAIL, from: `${name} <ada@${VERIFIED}>` })
    return (await service.detail(id))['from_address']
  }

  // Proves: send-32
  test.each([
    ['=?ISO-8859-1?Q?J=FCrgen?=', 'Jürgen'],
    ['=?us-ascii?q?Keith_Moore?=', 'Keith Moore'],
    ['=?utf-8*de?q?J=C3=BCrgen?= Meier', 'Jürgen Meier'],
    ['Dr. =?utf-8?b?SsO8cmdlbg==?=  =?utf-8?q?_M=C3=BCller?= GmbH', 'Dr. Jürgen Müller GmbH'],
    ['=?utf-8?q?J=C3?= =?utf-8?q?=BCrgen?=', 'Jürgen'],
    ['=?iso-2022-jp?b?GyRCRnxLXBsoQg==?=', '日本'],
    ['=?utf-8?q?=3D=3Futf-8=3Fq=3FJ=3DC3=3DBCrgen=3F=3D?=', JURGEN],
  ])('%s means %s', async (name, meaning) => {
    const from = `<ada@${VERIFIED}>`
    expect([`${meaning} ${from}`, `"${meaning}" ${from}`]).toContain(String(await readName(name)))
  })

  // Proves: send-32
  test.each([
    ['=?utf-8?q?J=C3=BCrgen'],
    ['=?utf-8?x?Jurgen?='],
    ['=?utf-8?q?J=C3=BCrgen Meier?='],
    ['x=?utf-8?q?J=C3=BCrgen?='],
    ['=?utf-8?q?J=C3=BCrgen?=x'],
    ['=?utf-8?q?J=C3=ZZrgen?='],
    ['=?utf-8?q?J=FCrgen?='],
    ['=?utf-8?b?SsO8cmdlbg=?='],
    ['=?no-such-charset?q?abc?='],
    ['=?utf-8?q?a=0D=0ABcc:_b?='],
    ['=?utf-8?q??='],
    [`=?utf-8?q?${'a'.repeat(70)}?=`],
    [`"${JURGEN}"`],
  ])('%s means itself', async (name) => {
    expect(await readName(name)).toBe(`"${name.replaceAll('"', '')}" <ada@${VERIFIED}>`)
  })

  test('with another line break is a 422', async () => {
    for (const name of ['=?utf-8?q?a?=\nBcc: =?utf-8?q?b?=', 'a\n b', '=?utf-8?q?a?=\n\n =?utf-8?q?b?='])
      expect((await service.send({ ...EMAIL, reply_to: `${name} <x@receiver.test>` })).status).toBe(422)
  })
})
