/**
 * @module Views of a resolver for look-ups that belong together. They last as long as one request: nothing expires.
 */
import type { Answer, Resolver } from './resolver.ts'

/** Asks each question once, so that all look-ups see the same answers. */
export function shareAnswers(resolver: Resolver): Resolver {
  const share = <T>(ask: (name: string) => Promise<Answer<T>>): ((name: string) => Promise<Answer<T>>) => {
    const answers = new Map<string, Promise<Answer<T>>>()
    return (name) => {
      const key = name.toLowerCase()
      const known = answers.get(key)
      if (known) return known
      const answer = ask(name)
      answers.set(key, answer)
      return answer
    }
  }
  return {
    mx: share((name) => resolver.mx(name)),
    a: share((name) => resolver.a(name)),
    aaaa: share((name) => resolver.aaaa(name)),
    txt: share((name) => resolver.txt(name)),
    cname: share((name) => resolver.cname(name)),
    ns: share((name) => resolver.ns(name)),
    ptr: share((name) => resolver.ptr(name)),
    close() {},
    [Symbol.dispose]() {},
  }
}

/** Answers as if the only TXT record at `host` were `text`: what would hold after it is published. */
export const withTxtRecord = (resolver: Resolver, host: string, text: string): Resolver => ({
  ...shareAnswers(resolver),
  txt: (name) =>
    name.toLowerCase() === host ? Promise.resolve({ kind: 'ok', records: [text], ttlSeconds: 0 }) : resolver.txt(name),
})
