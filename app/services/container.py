"""All use cases of the API, built from one context."""

from dataclasses import dataclass
from typing import Self

from app.services.authentication import Authenticator
from app.services.context import ServiceContext
from app.services.event_stream import EventStreams
from app.services.events import EventService
from app.services.gpus.agents import AgentService
from app.services.gpus.benchmarks import GpuBenchmarkService
from app.services.gpus.fleet import GpuFleetService
from app.services.gpus.health import GpuHealthService
from app.services.gpus.metrics import GpuMetricsService
from app.services.gpus.models import GpuModelService
from app.services.gpus.proofs import ProofService
from app.services.gpus.samples import GpuSampleService
from app.services.groups.changes import GroupChanges
from app.services.groups.creation import GroupCreation
from app.services.groups.groups import GroupService
from app.services.groups.plan import GroupPlanService
from app.services.health import HealthService
from app.services.leases.access import LeaseAccess
from app.services.leases.bulk_release import BulkRelease
from app.services.leases.changes import LeaseChanges
from app.services.leases.creation import LeaseCreation
from app.services.leases.explanations import ExplanationService
from app.services.leases.host_keys import HostKeyService
from app.services.leases.idle_floors import IdleFloorService
from app.services.leases.idleness import LeaseIdleness
from app.services.leases.leases import LeaseService
from app.services.metrics import MetricsService
from app.services.money.budgets import BudgetService
from app.services.money.costs import CostService
from app.services.money.focus import FocusService
from app.services.money.forecast import ForecastService
from app.services.money.reconciliation import ReconciliationService
from app.services.money.usage import UsageService
from app.services.offering_cache import OfferingCache
from app.services.offerings.offerings import OfferingService
from app.services.offerings.plan import PlanService
from app.services.offerings.quotes import QuoteService
from app.services.offerings.regions import RegionService
from app.services.offerings.sizings import SizingService
from app.services.ops.audit import AuditService
from app.services.ops.ops import OpsService
from app.services.summary import SummaryService
from app.services.tenants.keys import KeyService
from app.services.tenants.quotas import QuotaService
from app.services.tenants.ssh_keys import SshKeyService
from app.services.tenants.tenants import TenantService
from app.services.tenants.use import TenantUseService
from app.services.volumes import VolumeService
from app.services.webhooks import WebhookService


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The use cases that the routers call."""

    context: ServiceContext
    authenticator: Authenticator
    tenants: TenantService
    tenant_use: TenantUseService
    keys: KeyService
    ssh_keys: SshKeyService
    quotas: QuotaService
    audit: AuditService
    health: HealthService
    metrics: MetricsService
    leases: LeaseService
    lease_creation: LeaseCreation
    lease_changes: LeaseChanges
    groups: GroupService
    group_creation: GroupCreation
    group_changes: GroupChanges
    group_plan: GroupPlanService
    budgets: BudgetService
    bulk_release: BulkRelease
    lease_access: LeaseAccess
    lease_idleness: LeaseIdleness
    idle_floors: IdleFloorService
    host_keys: HostKeyService
    agents: AgentService
    gpu_health: GpuHealthService
    gpu_benchmarks: GpuBenchmarkService
    proofs: ProofService
    gpu_samples: GpuSampleService
    gpu_metrics: GpuMetricsService
    gpu_fleet: GpuFleetService
    offerings: OfferingService
    gpu_models: GpuModelService
    regions: RegionService
    sizings: SizingService
    plan: PlanService
    quotes: QuoteService
    explanations: ExplanationService
    events: EventService
    streams: EventStreams
    volumes: VolumeService
    webhooks: WebhookService
    ops: OpsService
    reconciliation: ReconciliationService
    usage: UsageService
    costs: CostService
    focus: FocusService
    forecast: ForecastService
    summary: SummaryService

    @classmethod
    def build(cls, context: ServiceContext) -> Self:
        """Builds all services. The caller opens and closes `context`."""
        settings = context.settings
        catalogue = OfferingCache(context.database, cache_seconds=settings.catalogue_cache_seconds)
        usage = UsageService(context)
        plans = PlanService(context, catalogue)
        costs = CostService(context)
        gpu_health = GpuHealthService(context)
        agents = AgentService(context)
        health = HealthService(context)
        gpu_benchmarks = GpuBenchmarkService(context)
        return cls(
            context=context,
            authenticator=Authenticator(context.database, cache_seconds=settings.key_cache_seconds),
            tenants=TenantService(context),
            tenant_use=TenantUseService(context),
            keys=KeyService(context),
            ssh_keys=SshKeyService(context),
            quotas=QuotaService(context),
            audit=AuditService(context),
            health=health,
            metrics=MetricsService(context),
            leases=LeaseService(context),
            lease_creation=LeaseCreation(context, catalogue),
            lease_changes=LeaseChanges(context),
            groups=GroupService(context),
            group_creation=GroupCreation(context, catalogue),
            group_changes=GroupChanges(context, catalogue),
            group_plan=GroupPlanService(context, catalogue),
            budgets=BudgetService(context),
            bulk_release=BulkRelease(context),
            lease_access=LeaseAccess(context),
            lease_idleness=LeaseIdleness(context),
            idle_floors=IdleFloorService(context),
            host_keys=HostKeyService(context),
            agents=agents,
            gpu_health=gpu_health,
            gpu_benchmarks=gpu_benchmarks,
            proofs=ProofService(context, gpu_health),
            gpu_samples=GpuSampleService(context, agents, gpu_health, gpu_benchmarks),
            gpu_metrics=GpuMetricsService(context),
            gpu_fleet=GpuFleetService(context),
            offerings=OfferingService(catalogue),
            gpu_models=GpuModelService(catalogue),
            regions=RegionService(catalogue),
            sizings=SizingService(context.database, catalogue),
            plan=plans,
            quotes=QuoteService(context, catalogue, plans),
            explanations=ExplanationService(context, catalogue),
            events=EventService(context),
            streams=EventStreams(context.database, most=settings.max_streams),
            volumes=VolumeService(context, catalogue),
            webhooks=WebhookService(context),
            ops=OpsService(context, health),
            reconciliation=ReconciliationService(context),
            usage=usage,
            costs=costs,
            focus=FocusService(context),
            forecast=ForecastService(context),
            summary=SummaryService(context),
        )
