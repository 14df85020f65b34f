"""The models: parameters and the interface of :class:`qtcore.models.base.Model`."""
