import { expect, test } from 'bun:test'
import { parseFilters, toEmailQuery } from '#dashboard/screens/emails/filters.ts'

test('filters of a URL are texts of limited length; what is no filter is left out', () => {
  expect(
    parseFilters({
      to: ' bob@gmail.com ',
      tag: 42,
      subject: true,
      from: '  ',
      stream: ['a'],
      status: 'unheard of',
      from_date: '2026-11-21',
      to_date: 'yesterday',
      other: 'x',
      domain: 'x'.repeat(1000),
    }),
  ).toEqual({
    to: 'bob@gmail.com',
    tag: '42',
    subject: 'true',
    from_date: '2026-11-21',
    domain: 'x'.repeat(500),
  })
})

test('a range of days covers both days in the zone of the reader', () => {
  const first = new Date('2026-11-21T00:00:00.000').toISOString()
  const last = new Date('2026-11-22T23:59:59.999').toISOString()
  expect(toEmailQuery({ to: 'a@b.test', from_date: '2026-11-21', to_date: '2026-11-22' })).toEqual({
    to: 'a@b.test',
    from_date: first,
    to_date: last,
  })
  expect(toEmailQuery({ from_date: '2026-13-45' })).toMatchObject({ from_date: '2026-13-45' })
})
