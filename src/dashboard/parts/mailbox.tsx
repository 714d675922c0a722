/** @module The address of a sender with a name (RFC 5322 §3.4), each isolated: a name may reverse the text after it. */

export function Mailbox({ text }: { readonly text: string }) {
  const start = text.lastIndexOf('<')
  if (start <= 0) return <bdi>{text}</bdi>
  return (
    <>
      <bdi>{text.slice(0, start).trim()}</bdi> <bdi>{text.slice(start)}</bdi>
    </>
  )
}
