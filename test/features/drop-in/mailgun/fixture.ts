/** @module Mailgun's own client from npm, unmodified, against a running service. */
import FormData from 'form-data'
import Mailgun from 'mailgun.js'

type Service = { readonly url: string; readonly key: string }

/** @param prefix empty: as Ghost sets it up, which keeps only the host of its base URL */
export const createMailgun = ({ url, key }: Service, prefix = '/mailgun') =>
  new Mailgun(FormData).client({ username: 'api', key, url: `${url}${prefix}` })

/** Status and message of an error of the client; fails for success. */
export async function errorOf(answer: Promise<unknown>): Promise<readonly [status: unknown, message: string]> {
  const error = (await answer.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )) as { readonly status: number; readonly details: string } | undefined
  if (!error) throw new Error('the call succeeded')
  return [error.status, error.details]
}

/** A batch in the form in which Ghost sends a newsletter. */
export const createGhostBatch = (recipients: readonly string[], from: string, html: string) => ({
  to: [...recipients],
  from,
  'h:Reply-To': from,
  subject: 'The news',
  html,
  text: 'Hello %recipient.first_name%: %recipient.unsubscribe_url%',
  'recipient-variables': JSON.stringify(
    Object.fromEntries(
      recipients.map((address, index) => [
        address,
        {
          first_name: `Reader ${index}`,
          unsubscribe_url: `https://blog.test/unsubscribe/?uuid=${index}`,
          list_unsubscribe: `https://blog.test/unsubscribe/?uuid=${index}&post=1`,
        },
      ]),
    ),
  ),
  'h:Sender': from,
  'h:Auto-Submitted': 'auto-generated',
  'h:X-Auto-Response-Suppress': 'OOF, AutoReply',
  'h:List-Unsubscribe': '<%recipient.list_unsubscribe%>, <%tag_unsubscribe_email%>',
  'h:List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
  'v:email-id': '64f0c0ffee64f0c0ffee0001',
  'o:tag': ['ghost-email', 'bulk-email'],
  'o:tracking-opens': true,
})
