import { expect, test } from 'bun:test'
import { makeReply, ReplyParser, type SmtpReply } from '#protocols/smtp/replies.ts'

function parse(chunks: (string | Buffer)[], maxReplyBytes?: number) {
  const replies: SmtpReply[] = []
  const parser = new ReplyParser((reply) => replies.push(reply), maxReplyBytes)
  let fault: string | undefined
  for (const chunk of chunks) fault ??= parser.push(Buffer.from(chunk as string))
  return { replies, fault, isPartial: parser.isPartial }
}

test('a reply has its code, its enhanced code, its lines and a text of one line', () => {
  const { replies, fault, isPartial } = parse([
    '550-5.1.1 No such user,\r\n550-5.1.1 please check\r\n550 5.1.1 the address\r\n',
  ])
  expect({ replies, fault, isPartial }).toEqual({
    replies: [
      {
        code: 550,
        enhanced: '5.1.1',
        lines: ['5.1.1 No such user,', '5.1.1 please check', '5.1.1 the address'],
        text: '550 5.1.1 No such user, please check the address',
      },
    ],
    fault: undefined,
    isPartial: false,
  })
})

test('replies are the same wherever the network splits them', () => {
  const stream = Buffer.from('250-mx.example.test\r\n250-SIZE 100\r\n250 Grüße\r\n421 4.3.2 bye\r\n')
  const whole = parse([stream]).replies
  expect(whole.map((reply) => reply.code)).toEqual([250, 421])
  for (let cut = 1; cut < stream.length; cut++) {
    expect(parse([stream.subarray(0, cut), stream.subarray(cut)]).replies).toEqual(whole)
  }
  expect(parse([...stream].map((byte) => Buffer.from([byte]))).replies).toEqual(whole)
})

test('a code without text and a bare LF at the end are accepted', () => {
  expect(parse(['250\r\n', '354 go\n', '250-\n250 \n']).replies).toEqual([
    { code: 250, lines: [''], text: '250' },
    { code: 354, lines: ['go'], text: '354 go' },
    { code: 250, lines: ['', ''], text: '250' },
  ])
})

test('an enhanced code of another class than the reply is ignored', () => {
  expect(makeReply(450, ['5.1.1 odd']).enhanced).toBeUndefined()
  expect(makeReply(250, ['2.1.5']).enhanced).toBe('2.1.5')
  expect(makeReply(550, ['5.7.26-gsmtp']).enhanced).toBeUndefined()
})

test('control characters in a reply become spaces', () => {
  expect(parse(['550 a\tb\rc\x00d\x1b[31m\r\n']).replies[0]?.text).toBe('550 a b c d [31m')
})

test('an invalid line is a problem, after the replies before it', () => {
  for (const line of [
    'hello',
    '',
    '99 short',
    '1234 long',
    '150 intermediate',
    '650 too high',
    '250+odd',
    'SSH-2.0-x',
  ]) {
    const { replies, fault } = parse([`220 ok\r\n${line}\r\n`])
    expect(replies).toHaveLength(1)
    expect(fault).toBe(`a line that is not an SMTP reply: ${JSON.stringify(line)}`)
  }
})

test('of a reply whose lines have different codes, the last one counts', () => {
  const { replies, fault } = parse(['550-5.7.1 one\r\n554 5.1.1 two\r\n'])
  expect({ replies, fault }).toEqual({
    replies: [{ code: 554, enhanced: '5.7.1', lines: ['5.7.1 one', '5.1.1 two'], text: '554 5.7.1 one 5.1.1 two' }],
    fault: undefined,
  })
})

test('a reply may be as long as the limit and not longer, in one line or many, with an end or without', () => {
  const bound = 1024
  const line = (bytes: number) => `250 ${'x'.repeat(bytes - 6)}\r\n`
  expect(parse([line(bound), line(bound)], bound).replies).toHaveLength(2)
  const overlong = { replies: [], fault: 'a reply of more than 1024 bytes' }
  expect(parse([line(bound + 1)], bound)).toMatchObject(overlong)
  expect(parse(['250-more\r\n'.repeat(103)], bound)).toMatchObject(overlong)
  expect(parse(Array<string>(1025).fill('x'), bound)).toMatchObject(overlong)
})

test('a reply is partial until its last line ends', () => {
  expect(parse(['25']).isPartial).toBe(true)
  expect(parse(['250-one\r\n']).isPartial).toBe(true)
  expect(parse(['250-one\r\n', '250 two\r\n']).isPartial).toBe(false)
})
