/** @module Creates an API key of a sub-account. The key is shown once. */
import { Button, Code, Group, Modal, Radio, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { CreateApiKeyRequest, CreateApiKeyResult, SubAccount } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { Copy } from '../../parts/copy.tsx'
import { DialogFrame, useFields } from '../../parts/form.tsx'

interface KeyChoice {
  readonly label: string
  readonly text: string
  /** Left out: all. */
  readonly scopes?: string[]
}

type ChoiceName = 'send' | 'mail' | 'all'

const CHOICES: Readonly<Record<ChoiceName, KeyChoice>> = {
  send: { label: 'Send', text: 'Send emails, and nothing else.', scopes: ['emails:send'] },
  mail: {
    label: 'Send and see',
    text: 'Send emails and read what became of them.',
    scopes: ['emails:send', 'emails:read'],
  },
  all: { label: 'Everything', text: 'Whatever its owner may do, except what needs a signed-in user.' },
}

interface KeyDialogProps {
  readonly account: SubAccount
  onClose(): void
}

export function KeyDialog({ account, onClose }: KeyDialogProps) {
  const [choice, setChoice] = useState<ChoiceName>('mail')
  const create = useChange((body: CreateApiKeyRequest) => api.subAccounts.createApiKey(account.id, body))
  const { values, field } = useFields({ name: '' }, create.error)
  const name = values.name.trim()
  if (create.data) return <CreatedKey created={create.data.data} onClose={onClose} />
  const { scopes } = CHOICES[choice]
  return (
    <DialogFrame
      title="Create an API key for it"
      confirm="Create"
      work={create}
      fields={['name']}
      isIncomplete={name === ''}
      onConfirm={() => create.mutate({ name, ...(scopes && { scopes }) })}
      onClose={onClose}
    >
      <Text size="sm">
        The key acts in <bdi>{account.name}</bdi>. Its team sees it in its list and can delete it there.
      </Text>
      <TextInput
        {...field('name')}
        label="What it is for"
        maxLength={200}
        dir="auto"
        autoComplete="off"
        required
        data-autofocus
      />
      <Radio.Group label="What it may do" value={choice} onChange={(value) => setChoice(value as ChoiceName)}>
        <Stack gap="xs" mt="xs">
          {Object.entries(CHOICES).map(([value, { label, text }]) => (
            <Radio key={value} value={value} label={label} description={text} />
          ))}
        </Stack>
      </Radio.Group>
    </DialogFrame>
  )
}

interface CreatedKeyProps {
  readonly created: CreateApiKeyResult
  onClose(): void
}

/** Closes only by its button: the key is not shown again. */
const CreatedKey = ({ created: { key, name }, onClose }: CreatedKeyProps) => (
  <Modal
    opened
    onClose={() => undefined}
    title="The key was created"
    closeOnClickOutside={false}
    closeOnEscape={false}
    withCloseButton={false}
  >
    <Stack>
      <Text>
        This is the key <bdi>{name}</bdi>. It is not stored here and not shown again: copy it now.
      </Text>
      <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {key}
      </Code>
      <Group justify="space-between">
        <Copy value={key} what="API key" />
        <Button onClick={onClose}>I have kept it</Button>
      </Group>
    </Stack>
  </Modal>
)
