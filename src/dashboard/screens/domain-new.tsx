/** @module The first step of adding a domain: its name. The page of the domain has the next ones. */
import { Alert, Group, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { TassisError } from '#client/client.ts'
import { api, read } from '../api/client.ts'
import { useStore } from '../api/data.ts'
import { useAllowed } from '../api/session.tsx'
import { bindText, CODE_INPUT, Form, FormError, findFieldError, SubmitButton } from '../parts/form.tsx'
import { TextLink } from '../parts/links.tsx'
import { Page } from '../parts/page.tsx'
import { Steps } from './domains/marks.tsx'
import { toTypedDomain, toWarningsKey } from './domains/state.ts'

export default function DomainNewScreen() {
  const [name, setName] = useState('')
  const [isMissing, setIsMissing] = useState(false)
  const queries = useQueryClient()
  const create = useStore(
    (domain: string) => api.domains.create({ domain }),
    ({ data }) => read.domains.get(data.id),
    ['domains', 'list'],
  )
  const navigate = useNavigate()
  const reason = useAllowed('developer')
  const submit = () => {
    const domain = toTypedDomain(name)
    setName(domain)
    setIsMissing(domain === '')
    if (domain === '' || reason !== undefined || create.isPending) return
    create.mutate(domain, {
      onSuccess: ({ data, warnings = [] }) => {
        queries.setQueryData(toWarningsKey(data.id), warnings)
        return navigate({ to: `/domains/${data.id}` })
      },
    })
  }
  const fieldError = isMissing ? 'Enter a domain, such as example.com.' : findFieldError(create.error, 'domain')
  const isKnown = create.error instanceof TassisError && create.error.code === 'domain_exists'
  return (
    <Page title="Add a domain">
      <Steps current={1} />
      <Form onSubmit={submit} maw={480} align="flex-start">
        {reason !== undefined && <Alert color="gray">{reason}</Alert>}
        <TextInput
          w="100%"
          label="Domain"
          description="What comes after the @ of your sender address. A subdomain such as mail.example.com is fine; its reputation is then its own."
          placeholder="example.com"
          {...bindText(name, setName)}
          error={fieldError}
          {...CODE_INPUT}
          inputMode="url"
          required
          data-autofocus
          autoFocus
        />
        <FormError error={create.error} fields={['domain']} />
        {isKnown && (
          <Text>
            <TextLink to="/domains">Find it among your domains</TextLink>
          </Text>
        )}
        <Group>
          <SubmitButton reason={reason} loading={create.isPending}>
            Continue
          </SubmitButton>
          <TextLink to="/domains">Cancel</TextLink>
        </Group>
      </Form>
    </Page>
  )
}
