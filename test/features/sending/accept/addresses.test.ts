import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { at } from '#test/support/api.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'

let emails: EmailApi
beforeAll(async () => {
  emails = await createEmailApi()
})
afterAll(() => emails[Symbol.asyncDispose]())

const recipientsOf = async (request: Record<string, unknown>) => {
  const { id } = await emails.accepted(request)
  const { recipients } = await emails.detail(id)
  return (recipients as { kind: string; address: string }[]).map(({ kind, address }) => `${kind} ${address}`)
}

describe('recipients', () => {
  // Proves: send-12, send-13
  test('in an array belong to one email, whose `to` joins all of them and whose `to_address` is the first', async () => {
    const sent = await emails.accepted({ to: ['B <b@r.test>', 'a@r.test', 'c@r.test'] })
    expect(sent['to']).toBe('b@r.test, a@r.test, c@r.test')
    expect(await emails.detail(sent.id)).toMatchObject({ to: 'b@r.test, a@r.test, c@r.test', to_address: 'b@r.test' })
  })

  // Proves: send-14
  test('that are repeated are merged, also across to, cc and bcc, regardless of case and name', async () => {
    const request = {
      to: ['Bob <bob@r.test>', 'BOB@R.TEST', 'bob@r.test'],
      cc: ['cc@r.test', 'bob@r.test'],
      bcc: ['CC@r.test', '"bcc"@r.test', 'bcc@r.test'],
    }
    expect(await recipientsOf(request)).toEqual(['to bob@r.test', 'cc cc@r.test', 'bcc "bcc"@r.test'])
  })

  test('of cc and bcc may be a string too, and an empty one means none', async () => {
    expect(await recipientsOf({ to: 'a@r.test', cc: 'B <b@r.test>', bcc: 'c@r.test' })).toEqual([
      'to a@r.test',
      'cc b@r.test',
      'bcc c@r.test',
    ])
    expect(await recipientsOf({ to: 'a@r.test', cc: '', bcc: '' })).toEqual(['to a@r.test'])
    expectError(await emails.send({ cc: 'b' }), 422, 'invalid_address', 'cc')
    for (const to of ['a@r.test, "Doe, Jane" <b@r.test>', 'a@r.test,b@r.test']) {
      const list = await emails.send({ to })
      expectError(list, 422, 'invalid_address', 'to')
      expect(at(list.body, 'message')).toBe('to: Several addresses must be an array of strings, with one address each.')
    }
    expect(await recipientsOf({ to: 'Doe, Jane <b@r.test>', cc: '"a@r.test, Jane" <c@r.test>' })).toEqual([
      'to b@r.test',
      'cc c@r.test',
    ])
  })

  // Proves: send-14
  test('are accepted up to 50, not counting duplicates; more are a 422, in whichever fields they are', async () => {
    const of = (prefix: string, count: number) => Array.from({ length: count }, (_, i) => `${prefix}${i}@r.test`)
    expect(await recipientsOf({ to: [...of('a', 50), ...of('a', 50)] })).toHaveLength(50)
    for (const request of [{ to: of('a', 51) }, { to: of('a', 1), cc: of('b', 25), bcc: of('c', 25) }])
      expectError(await emails.send(request), 422, 'too_many_recipients', 'to')
    expectError(await emails.send({ to: of('a', 600) }), 422, 'too_many_recipients', 'to')
  })

  const good: readonly [input: string, address: string][] = [
    ['a@b.test', 'a@b.test'],
    ['Name <a@b.test>', 'a@b.test'],
    ['Doe, Jane, PhD <jane@b.test>', 'jane@b.test'],
    ['Müller, Jörg <joerg@b.test>', 'joerg@b.test'],
    ['日本 <a@b.test>', 'a@b.test'],
    ['"Quoted, Name" <a@b.test>', 'a@b.test'],
    ['A <b> <a@b.test>', 'a@b.test'],
    ['a@BÜCHER.test', 'a@xn--bcher-kva.test'],
    ['jörg@b.test', 'jörg@b.test'],
    ["o'brien+tag@b.test", "o'brien+tag@b.test"],
    ['  a@b.test  ', 'a@b.test'],
  ]
  // Proves: send-12, send-47
  test.each(good)('%s is stored as %s', async (input, address) => {
    expect((await emails.accepted({ to: input }))['to']).toBe(address)
  })

  const bad = [
    ...'nobody|@b.test|a@|a@b|a@b..test|a@-b.test|a b@b.test|a@b.test, c@d.test|a@b.test>|<a@b.test|..@b.test'.split(
      '|',
    ),
    ...['', ' ', 'a@[127.0.0.1]', 'a@127.0.0.1', 'a@b.test\r\nBcc: x@y.test', 'Name\n <a@b.test>', 'a\0@b.test'],
    ...[`${'x'.repeat(65)}@b.test`, `a@${'x'.repeat(64)}.test`, `a@${'x.'.repeat(130)}test`, 'a@b.test\u2028'],
  ]
  // Proves: send-12, send-33
  test.each(bad)('%j is a 422', async (input) => {
    expectError(await emails.send({ to: input }), 422, 'invalid_address', 'to')
    expectError(await emails.send({ bcc: ['ok@r.test', input] }), 422, 'invalid_address', 'bcc.1')
    expectError(await emails.send({ from: input }), 422, 'invalid_address', 'from')
  })
})

describe('the sender', () => {
  const cases: readonly [input: string, shown: string][] = [
    ['ada@sender.test', 'ada@sender.test'],
    ['Ada <ada@SENDER.test>', 'Ada <ada@sender.test>'],
    ['Lovelace, Ada <ada@sender.test>', '"Lovelace, Ada" <ada@sender.test>'],
    ['Ada "Countess" <ada@sender.test>', '"Ada \\"Countess\\"" <ada@sender.test>'],
    ['Адa ✉ <ada@sender.test>', '"Адa ✉" <ada@sender.test>'],
    ['ädä@sender.test', 'ädä@sender.test'],
  ]
  // Proves: send-4
  test.each(cases)('%s is shown as %s', async (input, shown) => {
    const { id } = await emails.accepted({ from: input })
    expect((await emails.detail(id))['from_address']).toBe(shown)
  })

  // Proves: send-47
  test('at an internationalised domain matches the registered domain, and its A-labels are in the Message-ID', async () => {
    await emails.addDomain(emails.actor, 'bücher.test')
    const sent = await emails.accepted({ from: 'Ada <ada@bücher.test>' })
    expect(sent).toMatchObject({ sandbox: false, message_id: `<${sent.id}@xn--bcher-kva.test>` })
  })
})

describe('reply_to', () => {
  const cases: readonly [input: string, shown: string][] = [
    ['a@b.test', 'a@b.test'],
    ['a@b.test,c@d.test', 'a@b.test, c@d.test'],
    ['Doe, Jane <j@b.test>, help@b.test', '"Doe, Jane" <j@b.test>, help@b.test'],
    ['a@bücher.test', 'a@xn--bcher-kva.test'],
  ]
  // Proves: send-26
  test.each(cases)('%s is shown as %s', async (input, shown) => {
    const { id } = await emails.accepted({ reply_to: input })
    expect((await emails.detail(id))['reply_to']).toBe(shown)
  })

  // Proves: send-26
  test.each(['nobody', 'a@b.test,', ',a@b.test', 'a@b.test\r\nBcc: x@y.test', 'a@b.test, x'])(
    '%j is a 422',
    async (input) =>
      expect(await emails.send({ reply_to: input })).toMatchObject({
        status: 422,
        body: { details: [{ field: 'reply_to' }] },
      }),
  )
})
