import { expect, test } from 'bun:test'
import { perOwner } from '#platform/per-owner.ts'

test('state is created once per owner, and owners do not share it', () => {
  const made: string[] = []
  const namesOf = perOwner((owner: { readonly id: string }) => {
    made.push(owner.id)
    return new Set([owner.id])
  })
  const first = { id: 'a' }
  const second = { id: 'b' }
  namesOf(first).add('x')
  expect([...namesOf(first)]).toEqual(['a', 'x'])
  expect([...namesOf(second)]).toEqual(['b'])
  expect(made).toEqual(['a', 'b'])
})

test('state that is undefined is also created only once', () => {
  let made = 0
  const nothingOf = perOwner((_: object) => void made++)
  const owner = {}
  expect([nothingOf(owner), nothingOf(owner)]).toEqual([undefined, undefined])
  expect(made).toBe(1)
})
