/** @module Sends what the preview shows to the user's own address. */

import { NativeSelect, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { DomainWire } from '#features/setup/domains/model.ts'
import type { DraftResult } from '#features/setup/templates/model.ts'
import { useDomains } from '../../api/domains.ts'
import { useSession } from '../../api/session.tsx'
import { useSendTestEmail } from '../../api/templates.ts'
import { DialogFrame } from '../../parts/form.tsx'
import { TextLink } from '../../parts/links.tsx'
import { QueryView } from '../../parts/page.tsx'

interface TestEmailProps {
  readonly rendered: DraftResult
  onClose(): void
}

export function TestEmail({ rendered, onClose }: TestEmailProps) {
  const domains = useDomains(1)
  const { user } = useSession()
  const [chosen, setChosen] = useState<string>()
  const send = useSendTestEmail()
  const sorted = domains.data?.data.toSorted((a, b) => Number(isVerified(b)) - Number(isVerified(a))) ?? []
  const domain = sorted.find(({ id }) => id === chosen) ?? sorted[0]
  const { subject, html_body, text_body } = rendered
  const confirm = () => {
    if (!domain || subject === null || send.isPending) return
    send.mutate({
      from: `Test <test@${domain.domain}>`,
      to: user.email,
      subject,
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
                value={domain.id}
                onChange={(event) => setChosen(event.currentTarget.value)}
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
            <TextLink to={`/emails/${send.data.id}`} target="_blank" underline="always">
              See what happens to it (new tab)
            </TextLink>
          </Text>
        )}
      </div>
    </DialogFrame>
  )
}

const isVerified = ({ status }: DomainWire): boolean => status === 'verified'
