import { Page } from '../parts/page.tsx'

export const SandboxScreen = () => <Page title="Sandbox">Not built</Page>
