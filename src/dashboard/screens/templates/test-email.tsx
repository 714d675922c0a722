/** @module Sends what the preview shows to the user's own address. */
import { NativeSelect, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { Domain, RenderTemplateTextResult } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, usePage } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { bindText, DialogFrame } from '../../parts/form.tsx'
import { TextLink } from '../../parts/links.tsx'
import { QueryView } from '../../parts/page.tsx'

interface TestEmailProps {
  readonly rendered: RenderTemplateTextResult
  onClose(): void
}

export function TestEmail({ rendered, onClose }: TestEmailProps) {
  const domains = usePage(read.domains.list({ page: 1 }))
  const { user } = useSession()
  const [chosen, setChosen] = useState<string>()
  const send = useChange(api.emails.send)
  const sorted = domains.data?.data.toSorted((a, b) => Number(isVerified(b)) - Number(isVerified(a))) ?? []
  const domain = sorted.find(({ id }) => id === chosen) ?? sorted[0]
  const { subject, html_body, text_body } = rendered
  const confirm = () => {
    if (!domain || subject === null || send.isPending) return
    send.mutate({
      from: `Test <test@${domain.domain}>`,
      to: user.email,
      subject,
      tags: ['test-email'],
      tracking: false,
      ...(html_body !== null && { html_body }),
      ...(text_body !== null && { text_body }),
    })
  }
  return (
    <DialogFrame
      title="Test email"
      confirm={send.isSuccess ? 'Send another' : 'Send'}
      work={send}
      isIncomplete={domain === undefined}
      onConfirm={confirm}
      onClose={onClose}
    >
      <Text>
        Sends what the preview shows to your own address, <bdi>{user.email}</bdi>. It need not be saved.
      </Text>
      <QueryView query={domains}>
        {() =>
          domain ? (
            <Stack gap="xs">
              <NativeSelect
                label="From"
                {...bindText(domain.id, setChosen)}
                data={sorted.map(({ id, domain: name }) => ({ value: id, label: `test@${name}` }))}
              />
              {!isVerified(domain) && (
                <Text size="sm">
                  {domain.domain} is not verified yet, so the email is captured in the Sandbox and not sent.
                </Text>
              )}
            </Stack>
          ) : (
            <Text>
              There is no domain to send from.{' '}
              <TextLink to="/domains/new" underline="always">
                Add a domain
              </TextLink>
            </Text>
          )
        }
      </QueryView>
      <div role="status">
        {send.isSuccess && (
          <Text>
            The test email is on its way.{' '}
            <TextLink to={`/emails/${send.data.data.id}`} target="_blank" underline="always">
              See what happens to it (new tab)
            </TextLink>
          </Text>
        )}
      </div>
    </DialogFrame>
  )
}

const isVerified = ({ status }: Domain): boolean => status === 'verified'
